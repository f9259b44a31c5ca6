#include "ask/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/shapes_find.h"
#include "ask/steps.h"
#include "ask/context.h"
#include "ask/recording/shapes_named.h"
#include "ask/recording/skipped.h"
#include "base/cleanup.h"

/* Was a block created in the forward pass with the highest peak, of those of a step's
 * micro-batches? */
static bool is_of_rise(const struct gm_looking *looking, const struct gm_block *block)
{
	return block->alloc >= looking->rise && block->alloc < looking->rise_end;
}

/* The range of the step in which the activations of one forward pass grow to the maximum. */
static void find_rise(struct gm_looking *looking)
{
	const struct gm_model *model = looking->model;
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, looking->device);
	uint64_t bytes = 0, most = 0;
	uint32_t begin = 0;
	bool in_backward = true;
	while (gm_state_walk_next(&walk)) {
		struct gm_model_run run = gm_state_walk_run(&walk);
		if (run.step != looking->step || walk.block == GM_NO_BLOCK)
			continue;
		bool forward = run.phase == GM_PHASE_FORWARD;
		if (forward && in_backward) {
			begin = walk.number;
			bytes = 0;
		}
		in_backward = forward ? false : in_backward || run.phase == GM_PHASE_BACKWARD;
		looking->has_backward |= run.phase == GM_PHASE_BACKWARD;
		if (!forward || walk.event.action != GM_ALLOC ||
		        gm_categories_of(looking->categories, walk.block) != GM_CATEGORY_ACTIVATION)
			continue;
		bytes += gm_model_block(model, walk.block)->size;
		if (bytes > most) {
			most = bytes;
			looking->rise = begin;
			looking->rise_end = walk.number + 1;
		}
	}
}

static void look_at_block(struct gm_looking *looking, size_t index)
{
	const struct gm_block *block = gm_model_block(looking->model, index);
	if (block->device != looking->device || block->alloc == GM_NO_EVENT)
		return;
	enum gm_category category = gm_categories_of(looking->categories, index);
	uint32_t step = gm_model_step(looking->model, block->alloc);
	enum gm_phase phase = gm_model_phase(looking->model, block->alloc);
	bool stays = gm_block_live_after(block, looking->begin);
	if (stays && (category == GM_CATEGORY_PARAMETER || category == GM_CATEGORY_BUFFER))
		gm_shapes_add(looking, GM_SHAPE_PARAMETERS, block, 0);
	if (stays && category == GM_CATEGORY_PARAMETER)
		looking->parameters += block->size;
	if (category == GM_CATEGORY_OPTIMIZER_STATE)
		gm_shapes_add(looking, GM_SHAPE_OPTIMIZER_STATE, block, step);
	if (step != looking->step || !step)
		return;
	if (category == GM_CATEGORY_ACTIVATION && phase == GM_PHASE_FORWARD &&
	        is_of_rise(looking, block))
		gm_shapes_add(looking, GM_SHAPE_FORWARD, block, step);
	if (category == GM_CATEGORY_GRADIENT)
		gm_shapes_add(looking, GM_SHAPE_GRADIENTS, block, step);
	uint32_t end = gm_block_end(block);
	if (end == GM_NO_EVENT)
		return;
	uint32_t end_step = gm_model_step(looking->model, end);
	enum gm_phase end_phase = gm_model_phase(looking->model, end);
	if (end_step == step + 1 && category != GM_CATEGORY_GRADIENT &&
	        (end_phase == GM_PHASE_FORWARD || end_phase == GM_PHASE_DATA))
		gm_shapes_add(looking, GM_SHAPE_STALE, block, step);
}

/* The largest of forward's blocks that are clearly smaller than `size`, and the number of those
 * that are not. */
static uint64_t next_largest(const struct gm_looking *looking, uint64_t size, size_t *ret_alike)
{
	uint64_t next = 0;
	*ret_alike = 0;
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (block->device != looking->device || block->alloc == GM_NO_EVENT ||
		        block->size <= next || block->size > size ||
		        gm_categories_of(looking->categories, i) != GM_CATEGORY_ACTIVATION ||
		        gm_model_step(looking->model, block->alloc) != looking->step)
			continue;
		if (block->size * 4 > size * 3)
			++*ret_alike;
		else
			next = block->size;
	}
	return next;
}

/* The largest block of forward, if it is exceptional: at least a fifth of the rise, or a twentieth
 * and four times as large as the next; and no more blocks than the loss's own two are as large. */
static void find_slab(struct gm_looking *looking)
{
	const struct gm_shape *forward = &looking->shapes[GM_SHAPE_FORWARD];
	uint64_t size = looking->largest[GM_SHAPE_FORWARD];
	size_t alike;
	uint64_t next = next_largest(looking, size, &alike);
	bool large = size * 5 >= forward->bytes;
	if (forward->blocks < 3 || size * 20 < forward->bytes || alike > 2 ||
	        (!large && next * 4 > size))
		return;
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (block->device != looking->device || block->alloc == GM_NO_EVENT ||
		        block->alloc < forward->first || block->alloc > forward->last ||
		        block->size != size)
			continue;
		if (gm_categories_of(looking->categories, i) != GM_CATEGORY_ACTIVATION)
			continue;
		gm_shapes_add(looking, GM_SHAPE_SLAB, block, looking->step);
		looking->shapes[GM_SHAPE_SLAB].of = forward->bytes;
		looking->shapes[GM_SHAPE_SLAB].last = gm_block_end(block);
		return;
	}
}

/* Temporaries that are live at the step's peak; separately, those of collectives. */
static void find_spike(struct gm_looking *looking, uint32_t peak)
{
	for (size_t i = 0; i < gm_model_block_count(looking->model); i++) {
		const struct gm_block *block = gm_model_block(looking->model, i);
		if (block->device != looking->device || !gm_block_live_after(block, peak))
			continue;
		enum gm_category category = gm_categories_of(looking->categories, i);
		if (category == GM_CATEGORY_TEMPORARY)
			gm_shapes_add(looking, GM_SHAPE_SPIKE, block, looking->step);
		else if (category == GM_CATEGORY_COMMUNICATION)
			gm_shapes_add(looking, GM_SHAPE_COMMUNICATION, block, looking->step);
	}
	looking->shapes[GM_SHAPE_SPIKE].last = peak;
}

/* What the walk over the typical step finds: the largest drop during backward, the frees of
 * zero_grad, waves, and the maximum of the optimizer's temporaries. */
struct drop {
	uint32_t first, last, stack;
	uint64_t bytes, blocks, largest;
};

static void add_drop(
        struct gm_looking *looking, struct drop *drop, const struct gm_state_walk *walk)
{
	const struct gm_block *block = gm_model_block(looking->model, walk->block);
	if (!drop->blocks)
		drop->first = walk->number;
	drop->last = walk->number;
	drop->bytes += block->size;
	drop->blocks++;
	if (block->size > drop->largest && block->alloc != GM_NO_EVENT) {
		uint32_t native;
		drop->largest = block->size;
		gm_model_stacks(looking->model, block->alloc, &drop->stack, &native);
	}
}

static void keep_drop(struct gm_looking *looking, enum gm_shape_kind kind, const struct drop *drop)
{
	struct gm_shape *shape = &looking->shapes[kind];
	if (drop->bytes > shape->bytes)
		*shape = (struct gm_shape){.step = looking->step,
		        .first = drop->first,
		        .last = drop->last,
		        .bytes = drop->bytes,
		        .blocks = drop->blocks,
		        .stack = drop->stack};
}

static void walk_step(struct gm_looking *looking, uint32_t first, uint32_t last)
{
	struct gm_state_walk walk = gm_state_walk_begin_brief(looking->model, looking->device);
	struct drop cliff = {0}, zero = {0};
	uint64_t temporary = 0;
	uint32_t waves = 0, waves_first = 0, waves_last = 0, native;
	enum gm_phase before = GM_PHASE_OTHER;
	struct gm_shape *most = &looking->shapes[GM_SHAPE_OPTIMIZER_TEMPORARIES];
	while (gm_state_walk_next(&walk) && walk.number <= last) {
		if (walk.number < first)
			continue;
		enum gm_phase phase = gm_state_walk_run(&walk).phase;
		bool freed =
		        walk.block != GM_NO_BLOCK &&
		        gm_block_end(gm_model_block(looking->model, walk.block)) == walk.number;
		if (phase == GM_PHASE_RECOMPUTE && before != phase) {
			waves_first = waves++ ? waves_first : walk.number;
			waves_last = walk.number;
		}
		before = phase;
		if (walk.event.action == GM_ALLOC || phase != GM_PHASE_BACKWARD) {
			keep_drop(looking, GM_SHAPE_CLIFF, &cliff);
			cliff = (struct drop){0};
		}
		if (freed && phase == GM_PHASE_BACKWARD)
			add_drop(looking, &cliff, &walk);
		if (freed && phase == GM_PHASE_ZERO_GRAD)
			add_drop(looking, &zero, &walk);
		if (walk.block == GM_NO_BLOCK ||
		        gm_categories_of(looking->categories, walk.block) !=
		                GM_CATEGORY_TEMPORARY ||
		        phase != GM_PHASE_OPTIMIZER)
			continue;
		const struct gm_block *block = gm_model_block(looking->model, walk.block);
		if (walk.event.action == GM_ALLOC) {
			temporary += block->size;
			most->blocks++;
			if (temporary > most->bytes) {
				most->bytes = temporary;
				most->last = walk.number;
				gm_model_stacks(looking->model, walk.number, &most->stack, &native);
			}
			most->first = most->first ? most->first : walk.number;
			most->step = looking->step;
			most->of = looking->parameters;
		} else if (freed && temporary >= block->size) {
			temporary -= block->size;
		}
	}
	keep_drop(looking, GM_SHAPE_CLIFF, &cliff);
	keep_drop(looking, GM_SHAPE_ZERO_GRAD, &zero);
	if (waves)
		looking->shapes[GM_SHAPE_WAVES] = (struct gm_shape){.step = looking->step,
		        .first = waves_first,
		        .last = waves_last,
		        .count = waves};
}

/* The bytes that a step allocates, and those of them that were requested from CUDA. */
static void count_segments(
        struct gm_looking *looking, const struct gm_stretch *step, struct gm_shape *cached)
{
	struct gm_state_walk walk = gm_state_walk_begin_brief(looking->model, looking->device);
	while (gm_state_walk_next(&walk) && walk.number <= step->last) {
		if (walk.number < step->first)
			continue;
		cached->blocks += walk.event.action == GM_ALLOC;
		cached->count += walk.event.action == GM_SEGMENT_ALLOC ||
		                 walk.event.action == GM_SEGMENT_MAP;
	}
}

static void find_repeats(struct gm_looking *looking, const struct gm_steps_answer *steps)
{
	uint32_t equal = 0;
	const struct gm_stretch *typical = NULL;
	for (size_t i = 0; i < steps->step_count; i++) {
		const struct gm_stretch *step = &steps->steps[i];
		if (step->step == looking->step)
			typical = step;
		if (typical && step->step >= looking->step &&
		        step->peak - step->start == typical->peak - typical->start)
			equal++;
	}
	if (!typical)
		return;
	struct gm_shape *shape = &looking->shapes[GM_SHAPE_REPEATS];
	*shape = (struct gm_shape){.step = looking->step,
	        .first = typical->first,
	        .last = typical->last,
	        .bytes = typical->peak - typical->start,
	        .count = equal};
	find_spike(looking, typical->peak_event);
	walk_step(looking, typical->first, typical->last);
	struct gm_usage usage =
	        gm_model_usage_after(looking->model, looking->device, typical->last);
	if (usage.reserved > usage.allocated)
		looking->shapes[GM_SHAPE_CACHED] = (struct gm_shape){.step = looking->step,
		        .first = typical->last,
		        .last = typical->last,
		        .bytes = usage.reserved - usage.allocated};
	const struct gm_stretch *last = typical;
	for (size_t i = 0; i < steps->step_count; i++)
		last = steps->steps[i].step > last->step ? &steps->steps[i] : last;
	if (looking->shapes[GM_SHAPE_CACHED].bytes && last != typical)
		count_segments(looking, last, &looking->shapes[GM_SHAPE_CACHED]);
}

/* The event with which a step begins; without steps, that of the peak. */
static uint32_t begin_of_step(const struct gm_model *model, size_t device, uint32_t step)
{
	for (size_t i = 0; step && i < gm_model_run_count(model); i++)
		if (gm_model_run(model, i).step == step)
			return gm_model_run(model, i).first;
	return gm_model_device(model, device)->peak_event;
}

struct gm_error *gm_ask_shapes(struct gm_context *context, struct gm_shapes *ret_shapes)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_looking looking = {.model = model, .device = gm_model_main_device(model)};
	struct gm_shapes shapes = {.model = model, .device = looking.device};
	*ret_shapes = shapes;
	if (looking.device == SIZE_MAX)
		return NULL;
	gm_try(gm_model_categories(model, &looking.categories));
	uint32_t steps = gm_model_step_count(model);
	looking.step = steps > 1 ? 2 : steps;
	if (looking.step)
		find_rise(&looking);
	looking.begin = begin_of_step(model, looking.device, looking.step);
	for (size_t i = 0; i < gm_model_block_count(model); i++)
		look_at_block(&looking, i);
	find_slab(&looking);
	if (looking.step) {
		struct gm_steps_answer answer;
		gm_try(gm_ask_steps(context, &answer));
		find_repeats(&looking, &answer);
		gm_steps_answer_deinit(&answer);
	}
	gm_shapes_name(&looking);
	looking.shapes[GM_SHAPE_OPTIMIZER_STATE].of = looking.parameters;
	looking.shapes[GM_SHAPE_GRADIENTS].of = looking.parameters;
	looking.shapes[GM_SHAPE_FORWARD].count = looking.has_backward;
	if (!looking.shapes[GM_SHAPE_FORWARD].bytes)
		looking.shapes[GM_SHAPE_FORWARD].count = 0;
	struct gm_skipped skipped;
	gm_try(gm_skipped_find(model, &skipped));
	looking.shapes[GM_SHAPE_SKIPPED] = (struct gm_shape){.step = skipped.step,
	        .first = skipped.first,
	        .last = skipped.last,
	        .count = skipped.count};
	shapes.step = looking.step;
	for (int kind = 0; kind < GM_SHAPE_COUNT; kind++) {
		struct gm_shape *shape = &looking.shapes[kind];
		shape->kind = (enum gm_shape_kind)kind;
		if (shape->bytes || shape->count)
			shapes.items[shapes.count++] = *shape;
	}
	*ret_shapes = shapes;
	return NULL;
}

struct gm_error *gm_ask_plot(
        struct gm_context *context, struct gm_column *columns, size_t capacity, size_t *ret_count)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	size_t device = gm_model_main_device(model);
	uint64_t events = gm_log_event_count(gm_model_log(model));
	*ret_count = 0;
	if (device == SIZE_MAX || !events || !capacity)
		return NULL;
	size_t count = events < capacity ? (size_t)events : capacity;
	*ret_count = count;
	uint32_t peak = gm_model_device(model, device)->peak_event;
	for (size_t i = 0; i < count; i++) {
		columns[i] = (struct gm_column){.first = (uint32_t)(events * i / count),
		        .last = (uint32_t)(events * (i + 1) / count - 1)};
		columns[i].peak = columns[i].first <= peak && peak <= columns[i].last;
	}
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, device);
	struct gm_usage usage = {0};
	bool more = gm_state_walk_next(&walk);
	for (size_t i = 0; i < count; i++) {
		struct gm_column *column = &columns[i];
		uint32_t at = column->first;
		column->allocated = usage.allocated;
		column->reserved = usage.reserved;
		for (; more && walk.number <= column->last; more = gm_state_walk_next(&walk)) {
			usage = walk.usage;
			if (usage.reserved > column->reserved)
				column->reserved = usage.reserved;
			if (usage.allocated >= column->allocated) {
				column->allocated = usage.allocated;
				at = walk.number;
			}
		}
		column->step = gm_model_step(model, at);
		column->phase = gm_model_phase(model, at);
	}
	return NULL;
}
