#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/categories.h"
#include "model/internal.h"
#include "model/marks.h"
#include "model/modes.h"
#include "model/steps.h"

static size_t add_device(struct gm_model *model, uint8_t type, int16_t index)
{
	const struct gm_model_device *devices = model->devices.items;
	size_t latest = model->latest_device; /* events of one device follow one another */
	if (latest < model->devices.count && devices[latest].type == type &&
	        devices[latest].index == index)
		return latest;
	size_t known = gm_model_find_device(model, type, index);
	if (known != SIZE_MAX)
		return model->latest_device = known;
	if (model->devices.count == UINT16_MAX)
		return SIZE_MAX;
	const struct gm_model_device fresh = {
	        .type = type,
	        .index = index,
	        .peak_event = GM_NO_EVENT,
	        .reported_allocated = UINT64_MAX,
	        .reported_reserved = UINT64_MAX,
	};
	if (!gm_array_push(&model->devices, fresh))
		return SIZE_MAX;
	return model->devices.count - 1;
}

static bool add_block(struct gm_model *model, const struct gm_event *event, uint32_t number,
        size_t device, bool from_alloc)
{
	const struct gm_block block = {
	        .address = event->address,
	        .size = event->size,
	        .requested = event->requested,
	        .alloc = from_alloc ? number : GM_NO_EVENT,
	        .free_requested = GM_NO_EVENT,
	        .free_completed = GM_NO_EVENT,
	        .device = (uint16_t)device,
	        .flags = (uint16_t)event->flags,
	};
	if (model->blocks.count >= GM_NO_BLOCK - 1 || !gm_array_push(&model->blocks, block))
		return false;
	model->event_blocks[number] = (uint32_t)model->blocks.count - 1;
	return gm_live_put(
	        &model->live, event->address, (uint32_t)device, (uint32_t)model->blocks.count - 1);
}

/* Ends a block's life, or begins its end. */
static bool free_block(
        struct gm_model *model, const struct gm_event *event, uint32_t number, size_t device)
{
	struct gm_model_device *owner = &model->devices.items[device];
	uint32_t index = gm_live_get(&model->live, event->address, (uint32_t)device);
	if (index == GM_NO_BLOCK) {
		owner->unknown_frees++;
		owner->unknown_free_bytes += event->size;
		if (!add_block(model, event, number, device, false))
			return false;
		index = (uint32_t)model->blocks.count - 1;
	}
	struct gm_block *block = &model->blocks.items[index];
	model->event_blocks[number] = index;
	if (event->action == GM_FREE_REQUESTED) {
		if (block->free_requested == GM_NO_EVENT)
			block->free_requested = number;
	}
	if (event->action == GM_FREE_COMPLETED || event->flags & GM_EVENT_COMPLETES) {
		block->free_completed = number;
		gm_live_remove(&model->live, event->address, (uint32_t)device);
	}
	return true;
}

static void raise(uint64_t *peak, uint64_t now)
{
	if (now > *peak)
		*peak = now;
}

/* The cases are distinguished here, so that the compiler specializes each. */
static void count_usage(struct gm_model_device *owner, const struct gm_event *event,
        const struct gm_block *block, uint32_t number)
{
	struct gm_usage *now = &owner->now, *peak = &owner->peak;
	switch (event->action) {
	case GM_ALLOC: /* all that raises these */
		gm_usage_apply(now, GM_ALLOC, event->size, block, number);
		if (now->allocated > peak->allocated)
			owner->peak_event = number;
		raise(&peak->allocated, now->allocated);
		raise(&peak->active, now->active);
		raise(&peak->requested, now->requested);
		break;
	case GM_FREE_REQUESTED:
	case GM_FREE_COMPLETED:
		gm_usage_apply(now, GM_FREE_REQUESTED, event->size, block, number);
		break;
	default:
		gm_usage_apply(now, (enum gm_action)event->action, event->size, block, number);
		raise(&peak->reserved, now->reserved);
	}
}

static bool add_event(struct gm_model *model, const struct gm_event *event, uint32_t number)
{
	size_t device = add_device(model, event->device_type, event->device);
	if (device == SIZE_MAX)
		return false;
	model->event_blocks[number] = GM_NO_BLOCK;
	bool fits = true;
	if (event->action == GM_ALLOC)
		fits = add_block(model, event, number, device, true);
	else if (event->action == GM_FREE_REQUESTED || event->action == GM_FREE_COMPLETED)
		fits = free_block(model, event, number, device);
	else if (event->action >= GM_SEGMENT_ALLOC && event->action <= GM_SEGMENT_UNMAP)
		fits = gm_array_push(&model->segment_events, number);
	else if (event->action == GM_ANNOTATE)
		fits = gm_model_add_label(model, event, number, device);
	if (!fits)
		return false;
	struct gm_model_device *owner = &model->devices.items[device];
	owner->events++;
	owner->ooms += event->action == GM_OOM;
	uint32_t index = model->event_blocks[number];
	const struct gm_block *block = index == GM_NO_BLOCK ? NULL : &model->blocks.items[index];
	count_usage(owner, event, block, number);
	if (event->allocated != UINT64_MAX) {
		owner->reported_allocated = event->allocated;
		raise(&owner->reported_peak_allocated, event->allocated);
	}
	if (event->reserved != UINT64_MAX) {
		owner->reported_reserved = event->reserved;
		raise(&owner->reported_peak_reserved, event->reserved);
	}
	return true;
}

static bool add_checkpoint(struct gm_model *model)
{
	const struct checkpoint checkpoint = {model->usages.count, model->devices.count, 0};
	for (size_t i = 0; i < model->devices.count; i++)
		if (!gm_array_push(&model->usages, model->devices.items[i].now))
			return false;
	return gm_array_push(&model->checkpoints, checkpoint);
}

static struct gm_error *unreadable(const struct gm_log *log, uint64_t number)
{
	struct gm_error *error = gm_log_event_error(log, number);
	return error ? error : &gm_error_no_memory;
}

/* Reserves capacity for the data of each event. */
static bool reserve_events(struct gm_model *model, uint64_t count)
{
	size_t capacity = model->event_capacity;
	if (count < capacity)
		return true;
	/* exact for a complete log, with spare capacity for a growing one */
	capacity = model->follows ? (size_t)count + (size_t)count / 2 + 1024 : (size_t)count + 1;
	uint32_t *blocks = realloc(model->event_blocks, capacity * sizeof(*blocks));
	model->event_blocks = blocks ? blocks : model->event_blocks;
	uint32_t *sites = realloc(model->event_sites, capacity * sizeof(*sites));
	model->event_sites = sites ? sites : model->event_sites;
	if (!blocks || !sites)
		return false;
	gm_array_advise(blocks, capacity * sizeof(*blocks));
	gm_array_advise(sites, capacity * sizeof(*sites));
	model->event_capacity = capacity;
	/* most lives have three events; if they have two, the array grows */
	return model->blocks.count || gm_array_reserve(&model->blocks, count / 3 + 1);
}

/* The block of a free was allocated long ago: it is prefetched some events before it is needed, and
 * its place in the table still earlier. */
static inline void look_ahead(
        const struct gm_model *model, const struct gm_event *events, size_t left)
{
	enum { SLOTS = 12, BLOCKS = 6 };
	if (left <= SLOTS || !model->live.slot_count)
		return;
	__builtin_prefetch(
	        gm_live_place(&model->live, events[SLOTS].address, (uint32_t)model->latest_device));
	const struct gm_live_slot *place =
	        gm_live_place(&model->live, events[BLOCKS].address, (uint32_t)model->latest_device);
	if (place->block && place->block <= model->blocks.count)
		__builtin_prefetch(&model->blocks.items[place->block - 1], 1);
}

/* gm_find_named */
static uint32_t find_named(void *context, const struct gm_log_name *name)
{
	struct gm_model *model = context;
	size_t device = gm_model_find_device(model, name->device_type, name->device);
	if (device == SIZE_MAX)
		return GM_NO_BLOCK;
	uint32_t block = gm_live_get(&model->live, name->address, (uint32_t)device);
	if (block == GM_NO_BLOCK || name->offset + name->size > model->blocks.items[block].size ||
	        gm_block_end(&model->blocks.items[block]) != GM_NO_EVENT)
		return GM_NO_BLOCK;
	return block;
}

static bool take_names(struct gm_model *model, uint64_t number)
{
	return gm_block_names_take(&model->names, model->log, number, find_named, model);
}

static bool read_event(struct gm_model *model, const struct gm_event *event, uint32_t number)
{
	if (number % CHECKPOINT_EVENTS == 0 && !add_checkpoint(model))
		return false;
	if (model->names.next <= number && !take_names(model, number))
		return false;
	if (!add_event(model, event, number) ||
	        !gm_sites_put(&model->sites, event, &model->event_sites[number]))
		return false;
	model->read++;
	return true;
}

/* Consecutive events; few enough at once to stay in the first-level cache while the steps are
 * learned. */
static bool read_batch(
        struct gm_model *model, const struct gm_event *events, size_t count, uint32_t number)
{
	enum { AT_ONCE = 256 };
	struct readings *readings = &model->readings;
	for (size_t first = 0, end; first < count; first = end) {
		end = count - first > AT_ONCE ? first + AT_ONCE : count;
		for (size_t i = first; i < end; i++) {
			look_ahead(model, events + i, count - i);
			if (!read_event(model, events + i, number + (uint32_t)i))
				return false;
		}
		gm_model_steps_learn(model, readings->finding, events + first, end - first,
		        number + (uint32_t)first, &readings->found);
	}
	return true;
}

/* Reads the part of the log that was not read yet. */
static struct gm_error *read_on(struct gm_model *model)
{
	struct readings *readings = &model->readings;
	uint64_t count = gm_log_event_count(model->log);
	uint32_t number = model->event_count;
	if (count >= GM_NO_EVENT)
		return gm_error_create(GM_CORRUPT,
		        "%s: too many events: at most 4,294,967,294 are possible: record a shorter "
		        "run",
		        gm_log_path(model->log));
	if (!readings->finding && !(readings->finding = gm_model_steps_create(model)))
		return &gm_error_no_memory;
	if (!reserve_events(model, count))
		return &gm_error_no_memory;
	model->event_count = (uint32_t)count;
	model->iteration_count = gm_log_iteration_count(model->log);
	model->mark_count = gm_log_mark_count(model->log);
	model->names.next = 0;
	while (number < model->event_count) {
		size_t batch;
		const struct gm_event *events = gm_log_events(model->log, number, &batch);
		if (!events)
			return unreadable(model->log, number);
		if (!read_batch(model, events, batch, number))
			return &gm_error_no_memory;
		number += (uint32_t)batch;
	}
	gm_model_sort_labels(model);
	if (!take_names(model, model->event_count))
		return &gm_error_no_memory;
	gm_block_names_sort(&model->names);
	if (!model->chosen)
		gm_steps_plan(readings->finding, &model->plan);
	if (gm_log_mark_count(model->log) && !gm_marks_read(&model->marks, model->log))
		return &gm_error_no_memory;
	return gm_model_assign_steps(model);
}

/* State that only reading further needs. */
static void forget_readings(struct gm_model *model)
{
	gm_live_deinit(&model->live);
	gm_sites_finish(&model->sites);
	gm_steps_destroy(gm_take(model->readings.assigning));
	gm_modes_destroy(gm_take(model->readings.modes));
}

static struct gm_error *create(const struct gm_log *log, bool follows, struct gm_model **ret_model)
{
	struct gm_model *model = calloc(1, sizeof(*model));
	if (!model)
		return &gm_error_no_memory;
	model->log = log;
	model->follows = follows;
	struct gm_error *error = read_on(model);
	if (error) {
		gm_model_destroy(model);
		return error;
	}
	if (!follows)
		forget_readings(model);
	*ret_model = model;
	return NULL;
}

struct gm_error *gm_model_create(const struct gm_log *log, struct gm_model **ret_model)
{
	return create(log, false, ret_model);
}

struct gm_error *gm_model_follow(const struct gm_log *log, struct gm_model **ret_model)
{
	return create(log, true, ret_model);
}

bool gm_model_follows(const struct gm_model *model)
{
	return model->follows;
}

struct gm_error *gm_model_read_on(struct gm_model *model)
{
	if (gm_log_event_count(model->log) == model->event_count)
		return NULL;
	gm_categories_destroy(gm_take(model->categories));
	return read_on(model);
}

uint64_t gm_model_events_read(const struct gm_model *model)
{
	return model->read;
}

struct gm_error *gm_model_live_blocks(
        const struct gm_model *model, size_t device, uint32_t **ret_blocks, size_t *ret_count)
{
	size_t count = 0;
	uint32_t *blocks = malloc((model->live.count + 1) * sizeof(*blocks));
	if (!blocks)
		return &gm_error_no_memory;
	for (size_t i = 0; i < model->live.slot_count; i++) {
		const struct gm_live_slot *slot = &model->live.slots[i];
		if (!slot->block || slot->device != device)
			continue;
		const struct gm_block *block = &model->blocks.items[slot->block - 1];
		if (block->alloc != GM_NO_EVENT && gm_block_end(block) == GM_NO_EVENT)
			blocks[count++] = slot->block - 1;
	}
	*ret_blocks = blocks;
	*ret_count = count;
	return NULL;
}

void gm_model_destroy(struct gm_model *model)
{
	if (!model)
		return;
	forget_readings(model);
	gm_steps_destroy(gm_take(model->readings.finding));
	gm_array_deinit(&model->devices);
	gm_array_deinit(&model->blocks);
	gm_array_deinit(&model->checkpoints);
	gm_array_deinit(&model->usages);
	gm_array_deinit(&model->runs);
	gm_array_deinit(&model->segment_events);
	gm_array_deinit(&model->labels);
	gm_array_deinit(&model->names.items);
	gm_categories_destroy(model->categories);
	gm_marks_destroy(model->marks);
	gm_sites_deinit(&model->sites);
	free(model->event_blocks);
	free(model->event_sites);
	free(model->step_of);
	free(model);
}

size_t gm_model_names(
        const struct gm_model *model, size_t block, struct gm_block_name *ret_names, size_t max)
{
	return gm_block_names_of(&model->names, model->log, block, ret_names, max);
}

bool gm_model_all_names(const struct gm_model *model, size_t block, struct gm_all_names *ret_names)
{
	ret_names->many = NULL;
	ret_names->items = ret_names->few;
	ret_names->count = gm_model_names(model, block, ret_names->few, GM_BLOCK_NAMES_FEW);
	if (ret_names->count <= GM_BLOCK_NAMES_FEW)
		return true;
	ret_names->many = calloc(ret_names->count, sizeof(*ret_names->many));
	if (!ret_names->many)
		return false;
	/* with capacity for more of them, more equal ones are found */
	size_t all = gm_model_names(model, block, ret_names->many, ret_names->count);
	ret_names->count = all < ret_names->count ? all : ret_names->count;
	ret_names->items = ret_names->many;
	return true;
}

void gm_all_names_deinit(struct gm_all_names *names)
{
	free(names->many);
}

bool gm_model_has_names(const struct gm_model *model)
{
	return gm_log_name_count(model->log) > 0;
}

const struct gm_log *gm_model_log(const struct gm_model *model)
{
	return model->log;
}

size_t gm_model_device_count(const struct gm_model *model)
{
	return model->devices.count;
}

const struct gm_model_device *gm_model_device(const struct gm_model *model, size_t index)
{
	return &model->devices.items[index];
}

/* CUDA devices, then other accelerators, then the rest; each kind from the highest peak on. */
static bool is_before(const struct gm_model_device *a, const struct gm_model_device *b)
{
	unsigned kind_a = a->type == 1 ? 0 : gm_device_is_accelerator(a->type) ? 1 : 2;
	unsigned kind_b = b->type == 1 ? 0 : gm_device_is_accelerator(b->type) ? 1 : 2;
	if (kind_a != kind_b)
		return kind_a < kind_b;
	if (a->peak.allocated != b->peak.allocated)
		return a->peak.allocated > b->peak.allocated;
	return a->index < b->index;
}

size_t gm_model_main_device(const struct gm_model *model)
{
	const struct gm_model_device *found = NULL;
	for (size_t i = 0; i < model->devices.count; i++)
		if (!found || is_before(&model->devices.items[i], found))
			found = &model->devices.items[i];
	return found ? (size_t)(found - model->devices.items) : SIZE_MAX;
}

size_t gm_model_accelerator(const struct gm_model *model, uint64_t index)
{
	for (size_t i = 0; i < model->devices.count; i++) {
		const struct gm_model_device *device = &model->devices.items[i];
		if (gm_device_is_accelerator(device->type) && (uint64_t)device->index == index)
			return i;
	}
	return SIZE_MAX;
}

size_t gm_model_block_count(const struct gm_model *model)
{
	return model->blocks.count;
}

const struct gm_block *gm_model_block(const struct gm_model *model, size_t index)
{
	return &model->blocks.items[index];
}

uint32_t gm_model_event_block(const struct gm_model *model, uint64_t event)
{
	return event < model->event_count ? model->event_blocks[event] : GM_NO_BLOCK;
}

void gm_model_stacks(
        const struct gm_model *model, uint64_t event, uint32_t *ret_python, uint32_t *ret_native)
{
	*ret_python = *ret_native = 0;
	if (event >= model->event_count)
		return;
	const struct gm_site *site = gm_model_site(model, (uint32_t)event);
	*ret_python = site->python_stack;
	*ret_native = site->native_stack;
}
