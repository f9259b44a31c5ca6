#include "ask/target/memory_build.h"

#include <stdlib.h>

#include "base/cleanup.h"

void gm_memory_building_deinit(struct gm_memory_building *building)
{
	gm_array_deinit(&building->segments);
	gm_array_deinit(&building->pieces);
}

bool gm_memory_add_piece(struct gm_memory_building *building, struct gm_piece piece)
{
	struct gm_memory_segment *segment = &building->segments.items[building->segments.count - 1];
	if (!gm_array_push(&building->pieces, piece))
		return false;
	segment->count++;
	return true;
}

/* Sums, once all pieces are there. */
void gm_memory_finish(struct gm_memory_building *building, struct gm_memory *memory)
{
	memory->segments = gm_take(building->segments.items);
	memory->segment_count = building->segments.count;
	memory->pieces = gm_take(building->pieces.items);
	memory->piece_count = building->pieces.count;
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct gm_memory_segment *segment = &memory->segments[i];
		uint64_t run = 0; /* free or soon free, without a gap */
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct gm_piece *piece = &memory->pieces[j];
			bool soon =
			        piece->state == GM_PIECE_FREE || piece->state == GM_PIECE_PENDING;
			segment->span += piece->size;
			run = soon ? run + piece->size : 0;
			if (run > memory->waited_largest)
				memory->waited_largest = run;
			if (piece->state == GM_PIECE_UNMAPPED)
				continue;
			segment->size += piece->size;
			if (piece->state == GM_PIECE_USED) {
				segment->used += piece->size;
				memory->requested += piece->requested;
				memory->blocks++;
			} else if (piece->state == GM_PIECE_PENDING) {
				segment->pending += piece->size;
				memory->requested += piece->requested;
			} else {
				segment->free += piece->size;
				segment->holes++;
				if (piece->size > segment->largest_hole)
					segment->largest_hole = piece->size;
			}
		}
		memory->allocated += segment->used;
		memory->pending += segment->pending;
		memory->free += segment->free;
		memory->reserved += segment->size;
		memory->holes += segment->holes;
		if (segment->largest_hole > memory->largest_hole)
			memory->largest_hole = segment->largest_hole;
		if (segment->is_private)
			memory->private_free += segment->free;
		else if (segment->free == segment->size)
			memory->whole_free += segment->free;
		if (!segment->is_private && segment->used == 0)
			memory->waited_whole += segment->size;
	}
}
