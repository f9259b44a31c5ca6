#include "image/capture_buffer.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/huge_pages.h"
#include "base/search.h"
#include "base/team.h"
#include "image/capture_pointer_free.h"
#include "image/internal.h"
#include "image/memory.h"
#include "image/memory_left.h"

enum {
	HUGE_PAGE = 2 << 20,
	DENSE = HUGE_PAGE / 16 * 15, /* touched bytes that make a huge page worthwhile */
};

struct gm_capture_buffer {
	struct gm_copy_area *items; /* by address; entries without bytes are taken */
	size_t count;
	uint64_t most; /* bytes that a copy may take */
};

uint64_t gm_capture_most(const struct gm_capture_buffer *buffer)
{
	return buffer ? buffer->most : gm_memory_left() / 2;
}

bool gm_capture_is_possible(const struct gm_image *image)
{
	return !image->capture && image->pid > 0 && !image->kind->one_reader &&
	       !image->kind->borrow_begin;
}

struct to_populate {
	struct gm_copy_area *area;
	struct gm_range range; /* of the process's addresses */
};

struct populating {
	struct gm_image *image;
	struct gm_copy_area *area;
	uint64_t lowest;
	GM_ARRAY(struct to_populate) slices;
};

static void populate(void *context, size_t number)
{
	const struct populating *populating = context;
	struct to_populate slice = populating->slices.items[number];
	if (gm_copy_is_likely_pointer_free(
	            populating->image, slice.area, slice.range, populating->lowest))
		return;
	uint8_t *bytes = slice.area->bytes + (slice.range.start - slice.area->start);
	size_t size = (size_t)(slice.range.end - slice.range.start);
	gm_huge_pages_advise(bytes, size);
	/* Linux before 5.14 refuses: its pages come with the copy */
	(void)madvise(bytes, size, MADV_POPULATE_WRITE);
}

/* Our own pages will be written there. */
static bool note_slice(void *context, struct gm_range range)
{
	struct populating *populating = context;
	return gm_array_push(&populating->slices, ((struct to_populate){populating->area, range}));
}

/* A huge page of the area, and how much of it will be filled. */
struct huge_page {
	const struct gm_copy_area *area;
	uint64_t start;
	size_t filled;
};

static void advise_dense(const struct huge_page *page)
{
	const struct gm_copy_area *area = page->area;
	if (page->filled >= DENSE && page->filled < HUGE_PAGE && page->start >= area->start &&
	        area->end - page->start >= HUGE_PAGE)
		gm_huge_pages_advise(area->bytes + (page->start - area->start), HUGE_PAGE);
}

/*
 * In CPython's arenas of 1 MiB all but a few pages are touched, so no slice of such memory is as
 * long as a huge page. Memory that is touched almost completely gets one all the same. Memory that
 * is touched completely is excluded: its content is examined first.
 */
static void advise_all_dense(const struct populating *populating)
{
	struct huge_page page = {0};
	for (size_t i = 0; i < populating->slices.count; i++) {
		struct to_populate slice = populating->slices.items[i];
		for (uint64_t at = slice.range.start, end; at < slice.range.end; at = end) {
			uint64_t start = at & ~(uint64_t)(HUGE_PAGE - 1);
			end = slice.range.end - start < HUGE_PAGE ? slice.range.end
			                                          : start + HUGE_PAGE;
			if (page.area != slice.area || page.start != start) {
				if (page.area)
					advise_dense(&page);
				page = (struct huge_page){slice.area, start, 0};
			}
			page.filled += (size_t)(end - at);
		}
	}
	if (page.area)
		advise_dense(&page);
}

static bool buffer_fill(
        struct gm_capture_buffer *buffer, struct gm_image *image, uint64_t most, bool all)
{
	struct populating populating = {.image = image, .lowest = gm_lowest_address(image)};
	uint64_t bytes = 0;
	bool done = true;
	for (size_t i = 0; i < image->maps.count && done; i++) {
		const struct gm_mapping *mapping = &image->maps.items[i];
		if (!gm_mapping_is_memory(mapping))
			continue;
		struct gm_copy_area *area = &buffer->items[buffer->count];
		done = gm_copy_area_init(area, mapping);
		buffer->count += done;
		populating.area = area;
		if (done && !all && gm_pointer_free_is_possible())
			gm_copy_units_init(area);
		done = done &&
		       gm_copy_area_each_slice(image, area, &bytes, most, note_slice, &populating);
	}
	if (done) {
		advise_all_dense(&populating);
		gm_team_run(populating.slices.count, populate, &populating);
	}
	gm_array_deinit(&populating.slices);
	return done;
}

struct gm_capture_buffer *gm_capture_buffer_create(struct gm_image *image, bool all)
{
	uint64_t most = gm_capture_most(NULL);
	if (!gm_capture_is_possible(image) || gm_image_resident(image) > most)
		return NULL;
	struct gm_capture_buffer *buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return NULL;
	buffer->most = most;
	buffer->items = calloc(image->maps.count + 1, sizeof(*buffer->items));
	if (!buffer->items || !buffer_fill(buffer, image, most, all)) {
		gm_capture_buffer_destroy(buffer);
		return NULL;
	}
	return buffer;
}

void gm_capture_buffer_destroy(struct gm_capture_buffer *buffer)
{
	if (!buffer)
		return;
	for (size_t i = 0; i < buffer->count; i++)
		gm_copy_area_deinit(&buffer->items[i]);
	free(buffer->items);
	free(buffer);
}

bool gm_capture_buffer_take(struct gm_capture_buffer *buffer, const struct gm_mapping *mapping,
        struct gm_copy_area *ret_area)
{
	size_t at = buffer ? gm_partition_point(buffer->count, middle,
	                             buffer->items[middle].start < mapping->start)
	                   : 0;
	if (!buffer || at == buffer->count || buffer->items[at].start != mapping->start ||
	        buffer->items[at].end != mapping->end || !buffer->items[at].bytes)
		return false;
	*ret_area = buffer->items[at];
	buffer->items[at].bytes = NULL;
	buffer->items[at].touched = NULL;
	buffer->items[at].units = NULL;
	return true;
}
