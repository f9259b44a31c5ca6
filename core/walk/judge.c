/* Evaluates conditions for one event of the agent's recording, using the events before it. */
#include <stdlib.h>

#include "base/text.h"
#include "base/packages.h"
#include "model/log_steps.h"
#include "torch/dtypes.h"
#include "walk/judge.h"
#include "walk/state.h"

/* ---- stacks and tensors ---------------------------------------------------------------------- */

struct recorded {
	const struct gm_log *log;
	uint32_t python, native;
};

static bool python_frame(const void *context, size_t i, struct gm_condition_frame *ret_frame)
{
	const struct recorded *recorded = context;
	struct gm_log_frame frame;
	struct gm_log_code code = {0};
	size_t count;
	const uint32_t *frames = gm_log_python_stack(recorded->log, recorded->python, &count);
	if (i >= count || !gm_log_frame(recorded->log, frames[i], &frame))
		return false;
	gm_log_code(recorded->log, frame.code, &code);
	*ret_frame = (struct gm_condition_frame){gm_log_string(recorded->log, code.file),
	        gm_log_string(recorded->log, code.name), frame.line};
	return true;
}

static const char *native_function(const void *context, size_t i)
{
	const struct recorded *recorded = context;
	uint32_t function, file, line;
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(recorded->log, recorded->native, &count);
	if (i >= count)
		return NULL;
	if (!gm_log_symbol(recorded->log, addresses[i], &function, &file, &line))
		return "";
	return gm_log_string(recorded->log, function);
}

enum gm_truth gm_walk_judge_stacks(
        const struct gm_walk *walk, const struct gm_event *event, const struct gm_clause *clause)
{
	const struct recorded recorded = {walk->log, event->python_stack, event->native_stack};
	const struct gm_condition_stacks stacks = {&recorded, python_frame, native_function};
	return gm_compare_stacks(&stacks, clause);
}

enum gm_truth gm_walk_judge_tensor(
        const struct gm_walk *walk, uint32_t id, const struct gm_clause *clause)
{
	struct gm_log_tensor tensor;
	if (!gm_log_tensor(walk->log, id, &tensor))
		return GM_UNKNOWN;
	if (clause->fact == GM_FACT_SHAPE)
		return gm_compare_shapes(tensor.sizes, tensor.dimensions, clause);
	const char *name = gm_torch_dtype_name(tensor.type);
	return name ? gm_compare_texts(name, clause) : GM_UNKNOWN;
}

/* --- the results of a GradScaler -------------------------------------------------------------- */

/* GradScaler.step() skips the optimizer's step depending on the value that it reads in
 * _maybe_opt_step(). */
static bool is_read_by_step(const struct gm_walk *walk, uint32_t stack)
{
	const struct recorded recorded = {walk->log, stack, 0};
	struct gm_condition_frame frame;
	for (size_t i = 0; i < 64 && python_frame(&recorded, i, &frame); i++)
		if (gm_text_ends_with(frame.function, "_maybe_opt_step") &&
		        gm_file_is_of_torch(frame.file, "/torch/amp/grad_scaler.py"))
			return true;
	return false;
}

/* Between the previous event of the same thread, and the event. */
static void read_scaling(
        struct gm_walk *walk, uint64_t number, bool *ret_overflow, bool *ret_skipped)
{
	*ret_overflow = *ret_skipped = false;
	for (; walk->amps < gm_log_amp_count(walk->log); walk->amps++) {
		struct gm_log_amp amp;
		gm_log_amp(walk->log, walk->amps, &amp);
		if (amp.event > number)
			break;
		bool found = amp.kind == GM_AMP_FOUND && amp.count > 0 && amp.values[0] != 0;
		bool seen = amp.kind == GM_AMP_CHECK && amp.count > 1 && amp.values[1] != 0;
		*ret_overflow |= found || seen;
		*ret_skipped |= found && is_read_by_step(walk, amp.python_stack);
	}
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* By the events so far, like the recorder at breakpoints. */
static void feed(struct gm_walk *walk, const struct gm_event *event, uint64_t number)
{
	for (; walk->iterations < gm_log_iteration_count(walk->log); walk->iterations++) {
		struct gm_log_iteration iteration;
		gm_log_iteration(walk->log, walk->iterations, &iteration);
		if (iteration.event > number)
			break;
		gm_steps_turn(walk->steps, iteration.code, iteration.loop, iteration.position);
	}
	for (; walk->marks < gm_log_mark_count(walk->log); walk->marks++) {
		struct gm_log_mark mark;
		gm_log_mark(walk->log, walk->marks, &mark);
		if (mark.event > number)
			break;
		gm_log_steps_mark(walk->log, walk->steps, &mark);
		if (mark.kind == GM_MARK_STEP) {
			walk->declares_steps = true;
			walk->steps_marked++;
		}
	}
	if (event->flags & GM_EVENT_PREEXISTING)
		return;
	const struct gm_step_event fed = gm_step_event_of(event);
	walk->step = gm_steps_feed(walk->steps, &fed);
	if (walk->declares_steps)
		walk->step = (uint32_t)walk->steps_marked;
}

/* ---- one event ------------------------------------------------------------------------------- */

struct subject {
	const struct gm_walk *walk;
	struct gm_watched_event watched;
	uint32_t tensor; /* of the block that is allocated or freed */
	bool overflow, skipped;
};

static enum gm_truth truth(bool value)
{
	return value ? GM_TRUE : GM_FALSE;
}

static enum gm_truth judge(const void *context, const struct gm_clause *clause)
{
	const struct subject *subject = context;
	switch (clause->fact) {
	case GM_FACT_DTYPE:
	case GM_FACT_SHAPE:
		return gm_walk_judge_tensor(subject->walk, subject->tensor, clause);
	case GM_FACT_OVERFLOW:
		return truth(subject->overflow);
	case GM_FACT_SKIPPED:
		return truth(subject->skipped);
	case GM_FACT_FUNCTION:
	case GM_FACT_LINE:
	case GM_FACT_MODULE:
	case GM_FACT_OPERATOR:
	case GM_FACT_NODE:
	case GM_FACT_COLLECTIVE:
		return gm_walk_judge_stacks(subject->walk, subject->watched.event, clause);
	default:
		return gm_compare_event(&subject->watched, clause);
	}
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct gm_walk_block *find(const struct gm_walk *walk, const struct gm_event *event)
{
	const uint64_t key[2] = {event->address, event->device_type};
	struct gm_walk_block *block;
	HASH_FIND(hh, walk->blocks, key, sizeof(key), block);
	return block;
}

struct gm_walk_block *gm_walk_block_of(const struct gm_walk *walk, uint64_t event)
{
	struct gm_walk_block *block, *next;
	HASH_ITER(hh, walk->blocks, block, next)
	{
		if (block->event == event)
			return block;
	}
	return NULL;
}

static struct gm_error *keep(struct gm_walk *walk, const struct gm_event *event, uint64_t number)
{
	struct gm_walk_block *block = find(walk, event);
	if (event->action == GM_FREE_COMPLETED && block) {
		HASH_DEL(walk->blocks, block);
		free(block);
	}
	if (event->action != GM_ALLOC)
		return NULL;
	if (!block) {
		block = calloc(1, sizeof(*block));
		if (!block)
			return &gm_error_no_memory;
		block->key[0] = event->address;
		block->key[1] = event->device_type;
		HASH_ADD(hh, walk->blocks, key, sizeof(block->key), block);
	}
	block->event = number;
	block->tensor = event->tensor;
	return NULL;
}

struct gm_error *gm_walk_read(struct gm_walk *walk)
{
	uint64_t count = gm_log_event_count(walk->log);
	for (; walk->seen < count; walk->seen++) {
		struct gm_event event;
		struct subject subject = {.walk = walk};
		gm_log_event(walk->log, walk->seen, &event);
		feed(walk, &event, walk->seen);
		read_scaling(walk, walk->seen, &subject.overflow, &subject.skipped);
		bool frees = event.action == GM_FREE_REQUESTED || event.action == GM_FREE_COMPLETED;
		const struct gm_walk_block *block = frees ? find(walk, &event) : NULL;
		subject.watched = (struct gm_watched_event){
		        .event = &event,
		        .number = walk->seen,
		        .block = event.action == GM_ALLOC ? walk->seen
		                 : block                  ? block->event
		                                          : UINT64_MAX,
		        .steps = walk->steps,
		        .step = walk->step,
		};
		subject.tensor = block ? block->tensor : event.tensor;
		if (walk->seen >= walk->from && walk->seen < walk->to &&
		        !(event.flags & GM_EVENT_PREEXISTING))
			gm_watches_judge(&walk->watches, judge, &subject, walk->seen);
		gm_try(keep(walk, &event, walk->seen));
	}
	return NULL;
}
