/* The state after any event: usage, from the nearest checkpoint on, and segments. */
#include "model/state.h"

#include <stdlib.h>

#include "model/internal.h"

size_t gm_model_find_device(const struct gm_model *model, uint8_t type, int16_t index)
{
	for (size_t i = 0; i < model->devices.count; i++)
		if (model->devices.items[i].type == type && model->devices.items[i].index == index)
			return i;
	return SIZE_MAX;
}

/* The effect of an event on its block; false: the log must be read (segments; a second free). */
static bool action_by_block(
        const struct gm_block *block, uint32_t number, enum gm_action *ret_action)
{
	if (number == block->alloc)
		*ret_action = GM_ALLOC;
	else if (number == block->free_requested)
		*ret_action = GM_FREE_REQUESTED;
	else if (number == block->free_completed)
		*ret_action = GM_FREE_COMPLETED;
	else
		return false;
	return true;
}

/* The next event's action and size; false: it belongs to another device. */
static bool look(const struct gm_model *model, size_t device, uint32_t number,
        struct gm_event *ret_event, const struct gm_block **ret_block)
{
	uint32_t index = model->event_blocks[number];
	enum gm_action action;
	*ret_block = index == GM_NO_BLOCK ? NULL : &model->blocks.items[index];
	if (*ret_block && (*ret_block)->device != device)
		return false;
	if (*ret_block && action_by_block(*ret_block, number, &action)) {
		ret_event->action = (uint8_t)action;
		ret_event->size = (*ret_block)->size;
		return true;
	}
	gm_log_event(model->log, number, ret_event);
	return gm_model_find_device(model, ret_event->device_type, ret_event->device) == device;
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
		const struct gm_block *block;
		if (look(model, device, (uint32_t)number, &one, &block))
			gm_usage_apply(&usage, (enum gm_action)one.action, one.size, block,
			        (uint32_t)number);
	}
	return usage;
}

struct gm_state_walk gm_state_walk_begin(const struct gm_model *model, size_t device)
{
	return (struct gm_state_walk){.model = model, .device = device};
}

struct gm_state_walk gm_state_walk_begin_brief(const struct gm_model *model, size_t device)
{
	return (struct gm_state_walk){.model = model, .device = device, .brief = true};
}

bool gm_state_walk_next(struct gm_state_walk *walk)
{
	const struct gm_model *model = walk->model;
	while (walk->ahead < model->event_count) {
		const struct gm_block *block;
		walk->number = walk->ahead++;
		if (!look(model, walk->device, walk->number, &walk->event, &block))
			continue;
		if (!walk->brief)
			gm_log_event(model->log, walk->number, &walk->event);
		walk->block = model->event_blocks[walk->number];
		gm_usage_apply(&walk->usage, (enum gm_action)walk->event.action, walk->event.size,
		        block, walk->number);
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

/*
 * Each mapped range of an expandable segment is one segment, as in PyTorch
 * (CUDACachingAllocator.cpp, snapshot()): it grows at either end, and an unmapped part is cut out
 * of it.
 */
struct segments {
	GM_ARRAY(struct gm_segment) all;
};

static bool add_segment(struct segments *segments, const struct gm_segment *given)
{
	struct gm_segment one = *given;
	for (size_t i = 0; one.mapped && i < segments->all.count;) {
		struct gm_segment *other = &segments->all.items[i];
		bool below = other->address + other->size == one.address,
		     above = one.address + one.size == other->address;
		if (!other->mapped || other->device != one.device || other->stream != one.stream ||
		        (!below && !above)) {
			i++;
			continue;
		}
		one.address = below ? other->address : one.address;
		one.alloc = below ? other->alloc : one.alloc;
		one.size += other->size;
		*other = segments->all.items[--segments->all.count];
	}
	return gm_array_push(&segments->all, one);
}

static void remove_segment(struct segments *segments, size_t device, uint64_t address)
{
	for (size_t i = 0; i < segments->all.count; i++) {
		const struct gm_segment *one = &segments->all.items[i];
		if (one->device == device && one->address == address) {
			segments->all.items[i] = segments->all.items[--segments->all.count];
			return;
		}
	}
}

static bool cut(struct segments *segments, size_t device, uint64_t address, uint64_t size)
{
	uint64_t end = address + size;
	for (size_t i = 0; i < segments->all.count;) {
		const struct gm_segment one = segments->all.items[i];
		uint64_t one_end = one.address + one.size;
		if (one.device != device || one.address >= end || one_end <= address) {
			i++;
			continue;
		}
		segments->all.items[i] = segments->all.items[--segments->all.count];
		struct gm_segment rest = one;
		rest.mapped = true;
		rest.size = address - one.address;
		if (one.address < address && !gm_array_push(&segments->all, rest))
			return false;
		rest.address = end;
		rest.size = one_end - end;
		if (one_end > end && !gm_array_push(&segments->all, rest))
			return false;
	}
	return true;
}

static bool apply(
        struct segments *segments, const struct gm_event *event, size_t device, uint32_t number)
{
	switch ((enum gm_action)event->action) {
	case GM_SEGMENT_ALLOC:
	case GM_SEGMENT_MAP:
		return add_segment(segments, &(struct gm_segment){.address = event->address,
		                                     .size = event->size,
		                                     .stream = event->stream,
		                                     .device = (uint16_t)device,
		                                     .alloc = number,
		                                     .mapped = event->action == GM_SEGMENT_MAP});
	case GM_SEGMENT_UNMAP:
		return cut(segments, device, event->address, event->size);
	case GM_SEGMENT_FREE:
		remove_segment(segments, device, event->address);
		return true;
	default:
		return true;
	}
}

struct gm_error *gm_model_segments_after(const struct gm_model *model, uint64_t event,
        struct gm_segment **ret_segments, size_t *ret_count)
{
	struct segments segments = {0};
	for (size_t i = 0; i < model->segment_events.count; i++) {
		uint32_t number = model->segment_events.items[i];
		if (number > event)
			break;
		struct gm_event one;
		gm_log_event(model->log, number, &one);
		size_t device = gm_model_find_device(model, one.device_type, one.device);
		if (!apply(&segments, &one, device, number)) {
			gm_array_deinit(&segments.all);
			return &gm_error_no_memory;
		}
	}
	if (segments.all.count)
		qsort(segments.all.items, segments.all.count, sizeof(*segments.all.items),
		        compare_segments);
	*ret_segments = segments.all.items;
	*ret_count = segments.all.count;
	return NULL;
}
