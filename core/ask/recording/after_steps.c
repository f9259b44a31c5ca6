#include "ask/recording/after_steps.h"

#include <stdlib.h>

#include "base/cleanup.h"

/* The frames of the last step, from the outermost in, and how many of them the latest stack has. */
struct frames {
	const struct gm_log *log;
	uint32_t *codes; /* owned */
	size_t count;
	uint32_t latest; /* a stack, and the number of its frames that are among these */
	size_t shared;
};

static bool code_at(const struct gm_log *log, uint32_t frame, uint32_t *ret_code)
{
	struct gm_log_frame one;
	if (!gm_log_frame(log, frame, &one))
		return false;
	*ret_code = one.code;
	return true;
}

static size_t shared_with(struct frames *frames, uint32_t stack)
{
	size_t count, shared = 0;
	if (stack == frames->latest)
		return frames->shared;
	const uint32_t *items = gm_log_python_stack(frames->log, stack, &count);
	for (uint32_t code; items && shared < count && shared < frames->count; shared++)
		if (!code_at(frames->log, items[count - 1 - shared], &code) ||
		        code != frames->codes[shared])
			break;
	frames->latest = stack;
	frames->shared = shared;
	return shared;
}

static uint32_t stack_at(const struct gm_model *model, uint32_t event)
{
	uint32_t stack, native;
	gm_model_stacks(model, event, &stack, &native);
	return stack;
}

/* The stack of the last step's last allocation. The autograd thread's events have their caller's.
 */
static bool take_frames(const struct gm_model *model, uint32_t last, struct frames *frames)
{
	uint32_t step = gm_model_step(model, last), event = last;
	while (event > 0 && !stack_at(model, event) && gm_model_step(model, event - 1) == step)
		event--;
	const uint32_t *items =
	        gm_log_python_stack(frames->log, stack_at(model, event), &frames->count);
	frames->codes = malloc((frames->count + 1) * sizeof(*frames->codes));
	if (!frames->codes)
		return false;
	for (size_t i = 0; i < frames->count; i++)
		if (!code_at(frames->log, items[frames->count - 1 - i], &frames->codes[i]))
			frames->count = i;
	return true;
}

/* Of the step's frames, those that all later allocations have as well. */
static void leave_out_inner(const struct gm_model *model, uint32_t last, struct frames *frames)
{
	for (size_t i = gm_model_block_count(model); i-- > 0;) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->alloc == GM_NO_EVENT)
			continue;
		if (block->alloc <= last)
			break;
		size_t shared = shared_with(frames, stack_at(model, block->alloc));
		/* with none, another thread made it, or Python did not */
		if (shared && shared < frames->count)
			frames->count = shared;
	}
	frames->latest = UINT32_MAX;
}

struct gm_error *gm_after_steps(const struct gm_model *model, struct gm_after_steps *ret_after)
{
	struct frames frames = {.log = gm_model_log(model), .latest = UINT32_MAX};
	*ret_after = (struct gm_after_steps){GM_NO_EVENT, GM_NO_EVENT};
	for (size_t i = gm_model_run_count(model); i-- > 0 && ret_after->last == GM_NO_EVENT;)
		if (gm_model_run(model, i).step)
			ret_after->last = gm_model_run(model, i).end - 1;
	if (ret_after->last == GM_NO_EVENT)
		return NULL;
	if (!take_frames(model, ret_after->last, &frames))
		return &gm_error_no_memory;
	leave_out_inner(model, ret_after->last, &frames);
	uint32_t event = gm_model_run(model, gm_model_run_count(model) - 1).end - 1;
	while (event > ret_after->last &&
	        (!frames.count || shared_with(&frames, stack_at(model, event)) < frames.count))
		event--;
	ret_after->end = event;
	free(frames.codes);
	return NULL;
}
