#include "image/capture_room.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "base/team.h"
#include "image/internal.h"
#include "image/memory_left.h"

enum {
	PAGE = GM_PAGE_SIZE,
	PAGES_PER_WORD = GM_STRETCH_PAGES_PER_WORD,
	STEP = GM_STRETCH_STEP,
	RANGES_PER_STEP = STEP / PAGE,
	PIECE = GM_STRETCH_PIECE,
};

struct gm_capture_room {
	struct gm_stretch *items; /* by address; those that were taken have no bytes */
	size_t count;
	uint64_t most; /* bytes that a copy may take */
};

bool gm_stretch_init(struct gm_stretch *stretch, const struct gm_mapping *mapping)
{
	size_t size = (size_t)(mapping->end - mapping->start);
	uint64_t *touched = calloc(size / PAGE / PAGES_PER_WORD + 1, sizeof(*touched));
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!touched || bytes == MAP_FAILED) {
		if (bytes != MAP_FAILED)
			munmap(bytes, size);
		free(touched);
		return false;
	}
	/* as much time would go into the faults of small pages as into reading what goes there */
	(void)madvise(bytes, size, MADV_HUGEPAGE);
	*stretch = (struct gm_stretch){mapping->start, mapping->end, bytes, touched};
	return true;
}

static void stretch_deinit(struct gm_stretch *stretch)
{
	if (stretch->bytes)
		munmap(stretch->bytes, (size_t)(stretch->end - stretch->start));
	free(stretch->touched);
}

uint64_t gm_capture_most(const struct gm_capture_room *room)
{
	return room ? room->most : gm_memory_left() / 2;
}

bool gm_capture_is_possible(const struct gm_image *image)
{
	return !image->capture && image->pid > 0 && !image->kind->one_reader &&
	       !image->kind->lend_begin;
}

struct populating {
	GM_ARRAY(struct gm_range) pieces; /* of our own addresses */
};

static void populate(void *context, size_t number)
{
	const struct gm_range *piece = &((const struct populating *)context)->pieces.items[number];
	/* Linux before 5.14 refuses: its pages come with the copy */
	(void)madvise((void *)(uintptr_t)piece->start, (size_t)(piece->end - piece->start),
	        MADV_POPULATE_WRITE);
}

/* Which of our own pages will be written to; false: no memory, or too many. */
static bool find_touched(struct gm_image *image, const struct gm_stretch *stretch,
        struct populating *populating, uint64_t *bytes, uint64_t most)
{
	_cleanup_free_ struct gm_range *ranges = malloc(RANGES_PER_STEP * sizeof(*ranges));
	if (!ranges)
		return false;
	for (uint64_t at = stretch->start; at < stretch->end; at += STEP) {
		uint64_t end = stretch->end - at < STEP ? stretch->end : at + STEP;
		size_t count = gm_image_touched(image, at, end, ranges, RANGES_PER_STEP);
		for (size_t i = 0; i < count; i++) {
			uint64_t start = (uint64_t)(uintptr_t)stretch->bytes +
			                 (ranges[i].start - stretch->start);
			*bytes += ranges[i].end - ranges[i].start;
			for (uint64_t left = ranges[i].end - ranges[i].start, size; left > 0;
			        left -= size, start += size) {
				size = left < PIECE ? left : PIECE;
				if (!gm_array_push(&populating->pieces,
				            ((struct gm_range){start, start + size})))
					return false;
			}
		}
		if (*bytes > most)
			return false;
	}
	return true;
}

static bool room_fill(struct gm_capture_room *room, struct gm_image *image, uint64_t most)
{
	struct populating populating = {0};
	uint64_t bytes = 0;
	bool done = true;
	for (size_t i = 0; i < image->maps.count && done; i++) {
		const struct gm_mapping *mapping = &image->maps.items[i];
		if (!gm_mapping_is_memory(mapping))
			continue;
		struct gm_stretch *stretch = &room->items[room->count];
		done = gm_stretch_init(stretch, mapping);
		room->count += done;
		done = done && find_touched(image, stretch, &populating, &bytes, most);
	}
	if (done)
		gm_team_run(populating.pieces.count, populate, &populating);
	gm_array_deinit(&populating.pieces);
	return done;
}

struct gm_capture_room *gm_capture_room_create(struct gm_image *image)
{
	uint64_t most = gm_capture_most(NULL);
	if (!gm_capture_is_possible(image) || gm_image_resident(image) > most)
		return NULL;
	struct gm_capture_room *room = calloc(1, sizeof(*room));
	if (!room)
		return NULL;
	room->most = most;
	room->items = calloc(image->maps.count + 1, sizeof(*room->items));
	if (!room->items || !room_fill(room, image, most)) {
		gm_capture_room_destroy(room);
		return NULL;
	}
	return room;
}

void gm_capture_room_destroy(struct gm_capture_room *room)
{
	if (!room)
		return;
	for (size_t i = 0; i < room->count; i++)
		stretch_deinit(&room->items[i]);
	free(room->items);
	free(room);
}

/* The stretch that was made for this mapping, if there is one. */
bool gm_capture_room_take(struct gm_capture_room *room, const struct gm_mapping *mapping,
        struct gm_stretch *ret_stretch)
{
	size_t at = room ? gm_partition_point(
	                           room->count, middle, room->items[middle].start < mapping->start)
	                 : 0;
	if (!room || at == room->count || room->items[at].start != mapping->start ||
	        room->items[at].end != mapping->end || !room->items[at].bytes)
		return false;
	*ret_stretch = room->items[at];
	room->items[at].bytes = NULL;
	room->items[at].touched = NULL;
	return true;
}
