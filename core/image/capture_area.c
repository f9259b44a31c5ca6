#include "image/capture_area.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "image/memory.h"
#include "image/page_cache.h"

enum {
	PAGE = GM_PAGE_SIZE,
	STEP = 4096 *
	       PAGE, /* bytes of address space that are searched for touched pages at a time */
	RANGES_PER_STEP = STEP / PAGE,
	HUGE_PAGE = 2 << 20,
	SLICE = 2 * HUGE_PAGE,
};
#define MOST_WITH_UNITS (UINT64_C(1) << 40)

/* Address space with the same offset from a huge page's start as `start`: a slice of the target
 * that begins at a multiple of SLICE does so here too. NULL: none. */
static uint8_t *map_alike(uint64_t start, size_t size)
{
	uint8_t *memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	size_t skipped = (size_t)((start - (uintptr_t)memory) % HUGE_PAGE);
	if (skipped > 0)
		munmap(memory, skipped);
	if (skipped < HUGE_PAGE)
		munmap(memory + skipped + size, HUGE_PAGE - skipped);
	return memory + skipped;
}

static size_t units_bytes(const struct gm_copy_area *area)
{
	return (size_t)((area->end - 1) / GM_COPY_UNIT - area->start / GM_COPY_UNIT + 1) *
	       sizeof(*area->units);
}

void gm_copy_units_init(struct gm_copy_area *area)
{
	uint64_t size = area->end - area->start;
	if (size < GM_COPY_UNITS_LEAST * GM_COPY_UNIT || size > MOST_WITH_UNITS)
		return;
	void *units = mmap(NULL, units_bytes(area), PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	area->units = units == MAP_FAILED ? NULL : units;
}

static void units_deinit(struct gm_copy_area *area)
{
	if (area->units)
		munmap(area->units, units_bytes(area));
	area->units = NULL;
}

bool gm_copy_area_init(struct gm_copy_area *area, const struct gm_mapping *mapping)
{
	size_t size = (size_t)(mapping->end - mapping->start);
	uint64_t *touched = calloc(size / PAGE / GM_COPY_PAGES_PER_WORD + 1, sizeof(*touched));
	uint8_t *bytes = touched ? map_alike(mapping->start, size) : NULL;
	if (!bytes) {
		free(touched);
		return false;
	}
	*area = (struct gm_copy_area){mapping->start, mapping->end, bytes, touched, NULL};
	return true;
}

void gm_copy_area_deinit(struct gm_copy_area *area)
{
	if (area->bytes)
		munmap(area->bytes, (size_t)(area->end - area->start));
	free(area->touched);
	units_deinit(area);
}

static bool show_range(struct gm_range range, gm_copy_visit visit, void *context)
{
	for (uint64_t at = range.start, end; at < range.end; at = end) {
		end = (at | (SLICE - 1)) + 1;
		end = range.end < end ? range.end : end;
		if (!visit(context, (struct gm_range){at, end}))
			return false;
	}
	return true;
}

bool gm_copy_area_each_slice(struct gm_image *image, const struct gm_copy_area *area,
        uint64_t *bytes, uint64_t most, gm_copy_visit visit, void *context)
{
	_cleanup_free_ struct gm_range *ranges = malloc(RANGES_PER_STEP * sizeof(*ranges));
	if (!ranges)
		return false;
	for (uint64_t at = area->start, end; at < area->end; at = end) {
		at = gm_image_next_touched(image, at, area->end);
		uint64_t last = at | (STEP - 1); /* whole huge pages */
		end = area->end - 1 <= last ? area->end : last + 1;
		size_t count = gm_image_touched(image, at, end, ranges, RANGES_PER_STEP);
		for (size_t i = 0; i < count; i++) {
			*bytes += ranges[i].end - ranges[i].start;
			if (!show_range(ranges[i], visit, context))
				return false;
		}
		if (*bytes > most)
			return false;
	}
	return true;
}
