#include "cpython/window.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, NEAR = 2 * PAGE };

bool gm_window_init(struct gm_window *window, struct gm_image *image)
{
	window->image = image;
	window->start = 0;
	window->size = 0;
	window->bytes = malloc(GM_WINDOW_SIZE);
	return window->bytes != NULL;
}

void gm_window_deinit(struct gm_window *window)
{
	free(window->bytes);
}

const uint8_t *gm_window_read(struct gm_window *window, uint64_t address, size_t size)
{
	const uint8_t *there = gm_window_peek(window, address, size);
	if (there)
		return there;
	if (size > GM_WINDOW_SCRATCH ||
	        !gm_image_try_read(window->image, address, window->scratch, size))
		return NULL;
	return window->scratch;
}

static uint64_t address_at(const void *records, size_t stride, size_t at)
{
	uint64_t address;
	memcpy(&address, (const char *)records + at * stride, sizeof(address));
	return address;
}

const uint8_t *gm_window_get(struct gm_window *window, const void *records, size_t stride,
        size_t count, size_t at, size_t before, size_t size)
{
	uint64_t address = address_at(records, stride, at) - before;
	const uint8_t *there = gm_window_peek(window, address, size);
	if (there)
		return there;
	uint64_t start = address & ~(uint64_t)(PAGE - 1);
	uint64_t end = address + size;
	for (size_t i = at + 1; i < count && end < start + GM_WINDOW_SIZE; i++) {
		uint64_t next = address_at(records, stride, i) - before;
		if (next < start || next - start >= GM_WINDOW_SIZE ||
		        (next > end && next - end > NEAR))
			break;
		if (next + size > end)
			end = next + size;
	}
	end = (end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	if (end < start || address + size < address)
		return NULL;
	size_t wanted = end - start < GM_WINDOW_SIZE ? (size_t)(end - start) : GM_WINDOW_SIZE;
	/* a page or less would go through the image's cache, behind its locks, to no use */
	window->start = start;
	window->size = gm_image_read_some(window->image, start, window->bytes, wanted);
	return gm_window_read(window, address, size);
}
