#include "ask/target/memory_build.h"

#include <stdlib.h>

#include "base/cleanup.h"

void gm_memory_building_deinit(struct gm_memory_building *building)
{
	gm_array_deinit(&building->segments);
	gm_array_deinit(&building->parts);
}

bool gm_memory_add_part(struct gm_memory_building *building, struct gm_segment_part part)
{
	struct gm_memory_segment *segment = &building->segments.items[building->segments.count - 1];
	if (!gm_array_push(&building->parts, part))
		return false;
	segment->count++;
	return true;
}

/* Calculates the sums once all parts are known. */
void gm_memory_finish(struct gm_memory_building *building, struct gm_memory *memory)
{
	memory->segments = gm_take(building->segments.items);
	memory->segment_count = building->segments.count;
	memory->parts = gm_take(building->parts.items);
	memory->part_count = building->parts.count;
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct gm_memory_segment *segment = &memory->segments[i];
		uint64_t run = 0; /* free or soon free, and contiguous */
		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			const struct gm_segment_part *part = &memory->parts[j];
			bool soon = part->state == GM_SEGMENT_PART_FREE ||
			            part->state == GM_SEGMENT_PART_PENDING;
			segment->span += part->size;
			run = soon ? run + part->size : 0;
			if (run > memory->waited_largest)
				memory->waited_largest = run;
			if (part->state == GM_SEGMENT_PART_UNMAPPED)
				continue;
			segment->size += part->size;
			if (part->state == GM_SEGMENT_PART_USED) {
				segment->used += part->size;
				memory->requested += part->requested;
				memory->blocks++;
			} else if (part->state == GM_SEGMENT_PART_PENDING) {
				segment->pending += part->size;
				memory->requested += part->requested;
			} else {
				segment->free += part->size;
				segment->holes++;
				if (part->size > segment->largest_hole)
					segment->largest_hole = part->size;
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
