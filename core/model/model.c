#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "model/live.h"

enum { CHECKPOINT_EVENTS = 1 << 16 };

/* Where step or phase changes: they do so rarely. */
struct run {
	uint32_t event; /* the first */
	uint32_t step;
	uint8_t phase;
};

/* The usage of every device after each CHECKPOINT_EVENTS events; devices seen later have used nothing. */
struct checkpoint {
	size_t first, count; /* in `usages` */
};

struct gm_model {
	const struct gm_log *log;
	GM_ARRAY(struct gm_model_device) devices;
	GM_ARRAY(struct gm_block) blocks;
	uint32_t *event_blocks;
	uint32_t event_count;
	GM_ARRAY(struct checkpoint) checkpoints;
	GM_ARRAY(struct gm_usage) usages;
	GM_ARRAY(struct run) runs;
	GM_ARRAY(uint32_t) segment_events;
	struct gm_live live; /* while the model is made */
	struct gm_step_loop loop;
	bool has_loop;
	uint32_t step_count;
};

static size_t find_device(struct gm_model *model, uint8_t type, int16_t index)
{
	for (size_t i = 0; i < model->devices.count; i++)
		if (model->devices.items[i].type == type && model->devices.items[i].index == index)
			return i;
	return SIZE_MAX;
}

static size_t add_device(struct gm_model *model, uint8_t type, int16_t index)
{
	size_t known = find_device(model, type, index);
	if (known != SIZE_MAX || model->devices.count == UINT16_MAX)
		return known;
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

static uint64_t take(uint64_t from, uint64_t size)
{
	return from > size ? from - size : 0;
}

/* What an event does to a device's usage; `block` is the one it is about, NULL for segments. One place, so
 * that the sums at any event are those that the peak was found with. */
static void apply(struct gm_usage *usage, const struct gm_event *event,
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
	} else {
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
	if (!fits)
		return false;
	struct gm_model_device *owner = &model->devices.items[device];
	owner->events++;
	owner->ooms += event->action == GM_OOM;
	uint32_t index = model->event_blocks[number];
	const struct gm_block *block = index == GM_NO_BLOCK ? NULL : &model->blocks.items[index];
	apply(&owner->now, event, block, number);
	if (owner->now.allocated > owner->peak.allocated)
		owner->peak_event = number;
	raise(&owner->peak.allocated, owner->now.allocated);
	raise(&owner->peak.active, owner->now.active);
	raise(&owner->peak.requested, owner->now.requested);
	raise(&owner->peak.reserved, owner->now.reserved);
	if (event->allocated != UINT64_MAX)
		owner->reported_allocated = event->allocated;
	if (event->reserved != UINT64_MAX)
		owner->reported_reserved = event->reserved;
	return true;
}

static bool add_checkpoint(struct gm_model *model)
{
	const struct checkpoint checkpoint = {model->usages.count, model->devices.count};
	for (size_t i = 0; i < model->devices.count; i++)
		if (!gm_array_push(&model->usages, model->devices.items[i].now))
			return false;
	return gm_array_push(&model->checkpoints, checkpoint);
}

static size_t frames_of(void *context, uint32_t stack, struct gm_step_frame *ret_frames, size_t max)
{
	const struct gm_log *log = context;
	size_t count;
	const uint32_t *ids = gm_log_python_stack(log, stack, &count);
	count = count < max ? count : max;
	for (size_t i = 0; i < count; i++) {
		struct gm_log_frame frame = {0};
		struct gm_log_code code = {0};
		gm_log_frame(log, ids[i], &frame);
		gm_log_code(log, frame.code, &code);
		ret_frames[i] = (struct gm_step_frame){
		        .code = frame.code,
		        .lasti = frame.lasti,
		        .loop_count = code.loop_count,
		        .loops = code.loops,
		        .file = gm_log_string(log, code.file),
		        .name = gm_log_string(log, code.name),
		};
	}
	return count;
}

/* Feeds an event, and before it what iterators told up to it: *passes of the log's have been fed. */
static uint32_t feed(const struct gm_model *model, struct gm_steps *steps,
        const struct gm_event *event, uint32_t number, size_t *passes)
{
	for (; *passes < gm_log_pass_count(model->log); ++*passes) {
		struct gm_log_pass pass;
		gm_log_pass(model->log, *passes, &pass);
		if (pass.event > number)
			break;
		gm_steps_turn(steps, pass.code, pass.loop, pass.position != GM_LOG_NO_POSITION);
	}
	return gm_steps_feed(steps, event->python_stack, event->native_stack,
	        (enum gm_action)event->action, event->flags & GM_EVENT_BORROWED);
}

static void cleanup_steps(struct gm_steps **steps)
{
	gm_steps_destroy(*steps);
}

/* The second reading: the training loop is known, and each event gets its step and phase. */
static struct gm_error *assign_steps(struct gm_model *model)
{
	_cleanup_(cleanup_steps) struct gm_steps *steps =
	        gm_steps_create(frames_of, (void *)model->log);
	if (!steps)
		return &gm_error_no_memory;
	/* Without a loop everything is outside one: a loop that is nowhere is followed. */
	const struct gm_step_loop nowhere = {UINT32_MAX, 0, 0, false};
	gm_steps_fix(steps, model->has_loop ? &model->loop : &nowhere);
	uint64_t main_thread = 0; /* whose stack came first */
	bool over = false;
	size_t passes = 0;
	for (uint32_t number = 0; number < model->event_count; number++) {
		struct gm_event event;
		gm_log_event(model->log, number, &event);
		struct run run = {number, 0, GM_PHASE_INIT};
		if (!(event.flags & GM_EVENT_PREEXISTING)) {
			run.step = feed(model, steps, &event, number, &passes);
			run.phase = (uint8_t)gm_steps_phase(steps);
			if (!main_thread && event.python_stack &&
			        !(event.flags & GM_EVENT_BORROWED))
				main_thread = event.thread;
			/* The main thread has no Python frame any more: the program is over. */
			over = event.thread == main_thread ? !event.python_stack : over;
			if (over && main_thread) {
				run.step = 0;
				run.phase = GM_PHASE_OTHER;
			}
		}
		const struct run *last =
		        model->runs.count ? &model->runs.items[model->runs.count - 1] : NULL;
		if (last && last->step == run.step && last->phase == run.phase)
			continue;
		if (!gm_array_push(&model->runs, run))
			return &gm_error_no_memory;
		model->step_count = run.step > model->step_count ? run.step : model->step_count;
	}
	return NULL;
}

static struct gm_error *build(struct gm_model *model)
{
	uint64_t count = gm_log_event_count(model->log);
	if (count >= GM_NO_EVENT)
		return gm_error_create(GM_CORRUPT,
		        "%s: too many events: a model takes 4,294,967,294 of them: record a "
		        "shorter run",
		        gm_log_path(model->log));
	model->event_count = (uint32_t)count;
	model->event_blocks = malloc((count ? count : 1) * sizeof(*model->event_blocks));
	_cleanup_(cleanup_steps) struct gm_steps *steps =
	        gm_steps_create(frames_of, (void *)model->log);
	if (!model->event_blocks || !steps)
		return &gm_error_no_memory;
	size_t passes = 0;
	for (uint32_t number = 0; number < model->event_count; number++) {
		struct gm_event event;
		gm_log_event(model->log, number, &event);
		if (number % CHECKPOINT_EVENTS == 0 && !add_checkpoint(model))
			return &gm_error_no_memory;
		if (!add_event(model, &event, number))
			return &gm_error_no_memory;
		if (!(event.flags & GM_EVENT_PREEXISTING))
			feed(model, steps, &event, number, &passes);
	}
	gm_live_deinit(&model->live);
	model->has_loop = gm_steps_loop(steps, &model->loop);
	return assign_steps(model);
}

struct gm_error *gm_model_create(const struct gm_log *log, struct gm_model **ret_model)
{
	struct gm_model *model = calloc(1, sizeof(*model));
	if (!model)
		return &gm_error_no_memory;
	model->log = log;
	struct gm_error *error = build(model);
	if (error) {
		gm_model_destroy(model);
		return error;
	}
	*ret_model = model;
	return NULL;
}

void gm_model_destroy(struct gm_model *model)
{
	if (!model)
		return;
	gm_live_deinit(&model->live);
	gm_array_deinit(&model->devices);
	gm_array_deinit(&model->blocks);
	gm_array_deinit(&model->checkpoints);
	gm_array_deinit(&model->usages);
	gm_array_deinit(&model->runs);
	gm_array_deinit(&model->segment_events);
	free(model->event_blocks);
	free(model);
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

size_t gm_model_main_device(const struct gm_model *model)
{
	for (size_t i = 0; i < model->devices.count; i++)
		if (model->devices.items[i].type == 1 && model->devices.items[i].index == 0)
			return i;
	for (size_t i = 0; i < model->devices.count; i++)
		if (model->devices.items[i].type == 1)
			return i;
	return model->devices.count ? 0 : SIZE_MAX;
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

bool gm_block_live_after(const struct gm_block *block, uint32_t event)
{
	uint32_t end = block->free_requested < block->free_completed ? block->free_requested
	                                                             : block->free_completed;
	return block->alloc != GM_NO_EVENT && block->alloc <= event && end > event;
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
		if (find_device((struct gm_model *)model, one.device_type, one.device) != device)
			continue;
		uint32_t index = model->event_blocks[number];
		apply(&usage, &one, index == GM_NO_BLOCK ? NULL : &model->blocks.items[index],
		        (uint32_t)number);
	}
	return usage;
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
		size_t device = find_device((struct gm_model *)model, one.device_type, one.device);
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

static const struct run *find_run(const struct gm_model *model, uint64_t event)
{
	if (event >= model->event_count)
		return NULL;
	size_t low = 0, high = model->runs.count;
	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;
		if (model->runs.items[middle].event <= event)
			low = middle;
		else
			high = middle;
	}
	return &model->runs.items[low];
}

uint32_t gm_model_step(const struct gm_model *model, uint64_t event)
{
	const struct run *run = find_run(model, event);
	return run ? run->step : 0;
}

enum gm_phase gm_model_phase(const struct gm_model *model, uint64_t event)
{
	const struct run *run = find_run(model, event);
	return run ? (enum gm_phase)run->phase : GM_PHASE_OTHER;
}

uint32_t gm_model_step_count(const struct gm_model *model)
{
	return model->step_count;
}

bool gm_model_step_loop(const struct gm_model *model, struct gm_step_loop *ret_loop)
{
	if (model->has_loop)
		*ret_loop = model->loop;
	return model->has_loop;
}
