/* The state after any event: usage, from the nearest checkpoint on, and segments. */
#include <stdlib.h>

#include "model/internal.h"

size_t gm_model_find_device(const struct gm_model *model, uint8_t type, int16_t index)
{
	for (size_t i = 0; i < model->devices.count; i++)
		if (model->devices.items[i].type == type && model->devices.items[i].index == index)
			return i;
	return SIZE_MAX;
}

static uint64_t take(uint64_t from, uint64_t size)
{
	return from > size ? from - size : 0;
}

void gm_usage_apply(struct gm_usage *usage, const struct gm_event *event,
        const struct gm_block *block, uint32_t number)
{
	uint64_t requested = block ? block->requested : 0;
	switch (event->action) {
	case GM_ALLOC:
		usage->allocated += event->size;
		usage->active += event->size;
		usage->requested += requested;
		break;
	case GM_FREE_REQUESTED:
	case GM_FREE_COMPLETED:
		if (!block || block->alloc == GM_NO_EVENT)
			break; /* its allocation was never counted */
		if (block->free_requested == number ||
		        (block->free_completed == number && block->free_requested == GM_NO_EVENT))
			usage->allocated = take(usage->allocated, block->size);
		if (block->free_completed == number) {
			usage->active = take(usage->active, block->size);
			usage->requested = take(usage->requested, requested);
		}
		break;
	case GM_SEGMENT_ALLOC:
	case GM_SEGMENT_MAP:
		usage->reserved += event->size;
		break;
	case GM_SEGMENT_FREE:
	case GM_SEGMENT_UNMAP:
		usage->reserved = take(usage->reserved, event->size);
		break;
	default:
		break;
	}
}

struct gm_usage gm_model_usage_after(const struct gm_model *model, size_t device, uint64_t event)
{
	struct gm_usage usage = {0};
	if (model->event_count == 0)
		return usage;
	if (event >= model->event_count)
		event = model->event_count - 1;
	const struct checkpoint *checkpoint = &model->checkpoints.items[event / CHECKPOINT_EVENTS];
	if (device < checkpoint->count)
		usage = model->usages.items[checkpoint->first + device];
	for (uint64_t number = event / CHECKPOINT_EVENTS * CHECKPOINT_EVENTS; number <= event;
	        number++) {
		struct gm_event one;
		gm_log_event(model->log, number, &one);
		if (gm_model_find_device(model, one.device_type, one.device) != device)
			continue;
		uint32_t index = model->event_blocks[number];
		gm_usage_apply(&usage, &one,
		        index == GM_NO_BLOCK ? NULL : &model->blocks.items[index],
		        (uint32_t)number);
	}
	return usage;
}

struct gm_walk gm_walk_begin(const struct gm_model *model, size_t device)
{
	return (struct gm_walk){.model = model, .device = device};
}

bool gm_walk_next(struct gm_walk *walk)
{
	const struct gm_model *model = walk->model;
	while (walk->ahead < model->event_count) {
		walk->number = walk->ahead++;
		gm_log_event(model->log, walk->number, &walk->event);
		if (gm_model_find_device(model, walk->event.device_type, walk->event.device) !=
		        walk->device)
			continue;
		walk->block = model->event_blocks[walk->number];
		gm_usage_apply(&walk->usage, &walk->event,
		        walk->block == GM_NO_BLOCK ? NULL : &model->blocks.items[walk->block],
		        walk->number);
		return true;
	}
	return false;
}

static int compare_segments(const void *a, const void *b)
{
	const struct gm_segment *left = a, *right = b;
	if (left->device != right->device)
		return left->device < right->device ? -1 : 1;
	return left->address < right->address ? -1 : left->address > right->address;
}

struct gm_error *gm_model_segments_after(const struct gm_model *model, uint64_t event,
        struct gm_segment **ret_segments, size_t *ret_count)
{
	GM_ARRAY(struct gm_segment) segments = {0};
	for (size_t i = 0; i < model->segment_events.count; i++) {
		uint32_t number = model->segment_events.items[i];
		if (number > event)
			break;
		struct gm_event one;
		gm_log_event(model->log, number, &one);
		size_t device = gm_model_find_device(model, one.device_type, one.device);
		if (one.action == GM_SEGMENT_ALLOC || one.action == GM_SEGMENT_MAP) {
			const struct gm_segment segment = {
			        one.address, one.size, one.stream, (uint16_t)device, number};
			if (!gm_array_push(&segments, segment)) {
				gm_array_deinit(&segments);
				return &gm_error_no_memory;
			}
			continue;
		}
		for (size_t j = 0; j < segments.count; j++) {
			if (segments.items[j].device == device &&
			        segments.items[j].address == one.address) {
				segments.items[j] = segments.items[--segments.count];
				break;
			}
		}
	}
	if (segments.count)
		qsort(segments.items, segments.count, sizeof(*segments.items), compare_segments);
	*ret_segments = segments.items;
	*ret_count = segments.count;
	return NULL;
}
