/* The usage after any event, from the nearest checkpoint on. */
#include "model/state.h"

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
