/* The memory of a device, according to a recording. */
#include "ask/recording/memory_after.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ask/target/memory_build.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/size.h"

struct placed {
	uint64_t address, size, requested;
	uint32_t block;
	uint8_t state;
};

static int by_place(const void *a, const void *b)
{
	const struct placed *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

static int by_segment(const void *a, const void *b)
{
	const struct gm_segment *left = a, *right = b;
	return left->address < right->address ? -1 : left->address > right->address;
}

/* If blocks overlap (a recording with gaps), the first one counts. */
static bool fill_segment(struct gm_memory_building *building, const struct gm_segment *segment,
        const struct placed *placed, size_t count, size_t *at)
{
	uint64_t reached = segment->address, end = segment->address + segment->size;
	while (*at < count && placed[*at].address < reached)
		++*at;
	for (; *at < count && placed[*at].address < end; ++*at) {
		const struct placed *one = &placed[*at];
		if (one->address < reached)
			continue;
		if (one->address > reached &&
		        !gm_memory_add_part(building, (struct gm_segment_part){.address = reached,
		                                              .size = one->address - reached,
		                                              .block = GM_NO_BLOCK,
		                                              .state = GM_SEGMENT_PART_FREE}))
			return false;
		uint64_t size = one->size < end - one->address ? one->size : end - one->address;
		if (!gm_memory_add_part(building, (struct gm_segment_part){.address = one->address,
		                                          .size = size,
		                                          .requested = one->requested,
		                                          .block = one->block,
		                                          .state = one->state}))
			return false;
		reached = one->address + size;
	}
	return reached >= end ||
	       gm_memory_add_part(building, (struct gm_segment_part){.address = reached,
	                                            .size = end - reached,
	                                            .block = GM_NO_BLOCK,
	                                            .state = GM_SEGMENT_PART_FREE});
}

/* Of the segment that was built last. */
static void set_pool(struct gm_memory_building *building, const struct gm_segment *segment)
{
	struct gm_memory_segment *built = &building->segments.items[building->segments.count - 1];
	uint64_t block = 0;
	for (size_t i = built->first; i < building->parts.count && !block; i++)
		if (building->parts.items[i].state != GM_SEGMENT_PART_FREE)
			block = building->parts.items[i].size;
	built->pool = gm_segment_is_small(segment, block) ? GM_POOL_SMALL : GM_POOL_LARGE;
}

static struct gm_error *build_after(struct gm_memory_building *building,
        const struct gm_model *model, size_t device, uint32_t event)
{
	GM_ARRAY(struct placed) placed = {0};
	_cleanup_free_ struct gm_segment *segments = NULL;
	size_t segment_count, at = 0;
	gm_try(gm_model_segments_after(model, event, &segments, &segment_count));
	if (segment_count)
		qsort(segments, segment_count, sizeof(*segments), by_segment);
	bool memory = true;
	for (size_t i = 0; memory && i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		bool begun = block->alloc == GM_NO_EVENT || block->alloc <= event;
		bool ended = block->free_completed != GM_NO_EVENT && block->free_completed <= event;
		if (block->device != device || !begun || ended || block->size == 0)
			continue;
		if (block->alloc == GM_NO_EVENT && block->free_requested == GM_NO_EVENT)
			continue; /* only its completed free is known: the program released it
			             earlier */
		bool used = gm_block_live_after(block, event);
		memory = gm_array_push(&placed,
		        ((struct placed){block->address, block->size, block->requested, (uint32_t)i,
		                used ? GM_SEGMENT_PART_USED : GM_SEGMENT_PART_PENDING}));
	}
	if (placed.count)
		qsort(placed.items, placed.count, sizeof(*placed.items), by_place);
	for (size_t i = 0; memory && i < segment_count; i++) {
		if (segments[i].device != device)
			continue;
		memory =
		        gm_array_push(&building->segments, ((struct gm_memory_segment){
		                                                   .address = segments[i].address,
		                                                   .stream = segments[i].stream,
		                                                   .expandable = segments[i].mapped,
		                                                   .first = building->parts.count,
		                                           })) &&
		        fill_segment(building, &segments[i], placed.items, placed.count, &at);
		if (memory)
			set_pool(building, &segments[i]);
	}
	gm_array_deinit(&placed);
	return memory ? NULL : &gm_error_no_memory;
}

static struct gm_error *model_device(const struct gm_model *model, int asked, size_t *ret_device)
{
	if (asked >= 0)
		return gm_blocks_find_device(model, (uint64_t)asked, ret_device);
	*ret_device = gm_model_main_device(model);
	if (*ret_device == SIZE_MAX)
		return gm_error_create(GM_TARGET,
		        "no device: the recording has no events of any device: `gpumem info` lists "
		        "its devices");
	return NULL;
}

struct gm_error *gm_memory_after(
        struct gm_context *context, int device, uint32_t event, struct gm_memory *ret_memory)
{
	struct gm_model *model;
	size_t index;
	gm_try(gm_context_model(context, &model));
	gm_try(model_device(model, device, &index));
	uint64_t count = gm_log_event_count(gm_model_log(model));
	if (event == GM_NO_EVENT)
		event = count ? (uint32_t)count - 1 : 0;
	if (event >= count)
		return gm_error_create(GM_USAGE,
		        "event %u: not in the recording: it has %ju event%s, counted from 0", event,
		        (uintmax_t)count, gm_text_s(count));
	struct gm_memory memory = {.device_type = gm_model_device(model, index)->type,
	        .device = gm_model_device(model, index)->index,
	        .event = event,
	        .model = model,
	        .model_device = index,
	        .total = GM_NOT_KNOWN,
	        .device_free = GM_NOT_KNOWN};
	struct gm_memory_building building = {0};
	struct gm_error *error = build_after(&building, model, index, event);
	if (error) {
		gm_memory_building_deinit(&building);
		return error;
	}
	gm_memory_finish(&building, &memory);
	*ret_memory = memory;
	return NULL;
}
