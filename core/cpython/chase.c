#include "cpython/chase.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	PAGE = 4096,
	FRAME = 64 << 10,
	PAGES = FRAME / PAGE,
	MIN_FRAMES = 512, /* 32 MiB */
	MAX_FRAMES = 8192,
	SHARE = 16, /* of the writable memory, at most */
};

static uint64_t writable_bytes(struct gm_image *image)
{
	const uint32_t needed = GM_MAPPING_READ | GM_MAPPING_WRITE;
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		if ((mappings[i].flags & (needed | GM_MAPPING_DEVICE)) == needed)
			bytes += mappings[i].end - mappings[i].start;
	return bytes;
}

bool gm_chase_init(struct gm_chase *chase, struct gm_image *image)
{
	uint64_t wanted = writable_bytes(image) / SHARE / FRAME;
	size_t count = MIN_FRAMES;
	while (count < wanted && count < MAX_FRAMES)
		count *= 2;
	void *bytes = mmap(NULL, count * FRAME, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct gm_chase_frame *frames = calloc(count, sizeof(*frames));
	if (bytes == MAP_FAILED || !frames) {
		if (bytes != MAP_FAILED)
			munmap(bytes, count * FRAME);
		free(frames);
		return false;
	}
	*chase = (struct gm_chase){image, bytes, frames, count};
	return true;
}

void gm_chase_deinit(struct gm_chase *chase)
{
	if (chase->bytes)
		munmap(chase->bytes, chase->count * FRAME);
	free(chase->frames);
}

/* Reads the page and, where the one before it was wanted too, those after it. */
static bool fill(struct gm_chase *chase, struct gm_chase_frame *frame, uint8_t *bytes,
        uint64_t address, unsigned page)
{
	unsigned wanted = page > 0 && !(frame->there >> (page - 1) & 1) ? 4 : PAGES;
	uint64_t start = address & ~(uint64_t)(PAGE - 1);
	if (wanted > PAGES - page)
		wanted = PAGES - page;
	size_t got =
	        gm_image_read_some(chase->image, start, bytes + page * PAGE, (size_t)wanted * PAGE);
	for (size_t i = 0; i < got / PAGE; i++)
		frame->there |= 1u << (page + i);
	return got >= PAGE;
}

bool gm_chase_word(struct gm_chase *chase, uint64_t address, uint64_t *ret_word)
{
	uint64_t key = address / FRAME + 1;
	size_t slot = (size_t)(key ^ key >> 12) & (chase->count - 1);
	struct gm_chase_frame *frame = &chase->frames[slot];
	uint8_t *bytes = chase->bytes + slot * FRAME;
	unsigned page = (unsigned)(address % FRAME / PAGE);
	if (address & 7)
		return false;
	if (frame->key != key)
		*frame = (struct gm_chase_frame){.key = key};
	if (!(frame->there >> page & 1) && !fill(chase, frame, bytes, address, page))
		return false;
	memcpy(ret_word, bytes + address % FRAME, sizeof(*ret_word));
	return true;
}
