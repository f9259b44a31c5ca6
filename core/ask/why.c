#include "ask/why.h"
#include "ask/context.h"
#include "ask/recording/cause.h"
#include "ask/recording/place.h"

#include <stdlib.h>

#include "ask/recording/amp_outcomes.h"
#include "base/cleanup.h"

/* The statement of the free. If an instruction released a variable, it is the instruction's own
 * statement, even in a library; otherwise the user's line that led to it. */
const struct gm_frame_place *gm_why_statement(const struct gm_why *why)
{
	switch (why->cause.kind) {
	case GM_CAUSE_REBOUND:
	case GM_CAUSE_DELETED:
	case GM_CAUSE_ATTRIBUTE_CHANGE:
	case GM_CAUSE_CONTAINER_CHANGE:
	case GM_CAUSE_EXCEPTION_CLEARED:
		return &why->cause.place;
	default:
		return &why->freed_at;
	}
}

/* Did the statement of the free allocate the block in the iteration in which it released it, as the
 * largest so far? */
static bool replaces(const struct gm_why *why, const struct gm_block *other)
{
	const struct gm_log *log = gm_model_log(why->model);
	struct gm_event event;
	struct gm_frame_place place;
	if (!why->freed_at.code || gm_model_step(why->model, other->alloc) != why->cause.step ||
	        (why->replacement_block != GM_NO_BLOCK &&
	                gm_model_block(why->model, why->replacement_block)->size >= other->size))
		return false;
	gm_log_event(log, other->alloc, &event);
	return gm_place_site(log, event.python_stack, &place) && place.code == why->freed_at.code &&
	       place.line == why->freed_at.line;
}

/* The allocations during the block's lifetime, and whether its own statement is among them. */
static void find_meanwhile(struct gm_why *why)
{
	const struct gm_log *log = gm_model_log(why->model);
	const struct gm_block *block = &why->block;
	if (block->alloc == GM_NO_EVENT)
		return;
	uint64_t end = why->freed != GM_NO_EVENT ? why->freed : gm_log_event_count(log);
	for (uint64_t number = (uint64_t)block->alloc + 1; number < end; number++) {
		uint32_t index = gm_model_event_block(why->model, number);
		if (index == GM_NO_BLOCK)
			continue;
		const struct gm_block *other = gm_model_block(why->model, index);
		if (other->alloc != number || other->device != block->device)
			continue;
		why->meanwhile_bytes += other->size;
		why->meanwhile_blocks++;
		if (gm_block_live_after(other, (uint32_t)end - 1) && replaces(why, other))
			why->replacement_block = index;
		if (why->successor != GM_NO_BLOCK || other->size != block->size ||
		        !gm_block_live_after(other, (uint32_t)end - 1) || !why->made_at.code)
			continue;
		struct gm_event event;
		struct gm_frame_place place;
		gm_log_event(log, number, &event);
		if (gm_place_site(log, event.python_stack, &place) &&
		        place.code == why->made_at.code && place.line == why->made_at.line &&
		        gm_model_step(why->model, number) !=
		                gm_model_step(why->model, block->alloc))
			why->successor = index;
	}
}

static struct gm_error *find_skipped(struct gm_why *why)
{
	struct gm_amp_step *steps;
	size_t count;
	uint32_t first = 0, last = UINT32_MAX;
	if (why->block.alloc == GM_NO_EVENT)
		return NULL;
	first = gm_model_step(why->model, why->block.alloc);
	if (why->freed != GM_NO_EVENT)
		last = gm_model_step(why->model, why->freed);
	if (!last)
		last = UINT32_MAX; /* after all steps */
	gm_try(gm_amp_outcomes_only(why->model, &steps, &count));
	for (size_t i = 0; i < count; i++) {
		if (!steps[i].skipped || steps[i].step < first || steps[i].step > last)
			continue;
		if (why->skipped_count < GM_WHY_SKIPPED_MAX)
			why->skipped[why->skipped_count] = steps[i].step;
		why->skipped_count++;
	}
	free(steps);
	return NULL;
}

struct gm_error *gm_ask_why(struct gm_context *context, uint32_t block, struct gm_why *ret_why)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	const struct gm_log *log = gm_model_log(model);
	struct gm_why why = {
	        .model = model,
	        .block = *gm_model_block(model, block),
	        .number = block,
	        .successor = GM_NO_BLOCK,
	        .replacement_block = GM_NO_BLOCK,
	};
	why.freed = gm_block_end(&why.block);
	struct gm_event event;
	if (why.block.alloc != GM_NO_EVENT) {
		gm_log_event(log, why.block.alloc, &event);
		gm_place_site(log, event.python_stack, &why.made_at);
	}
	if (why.freed != GM_NO_EVENT) {
		gm_log_event(log, why.freed, &event);
		gm_place_site(log, event.python_stack, &why.freed_at);
		gm_cause_find(model, &why.block, &why.cause);
	}
	find_meanwhile(&why);
	gm_try(find_skipped(&why));
	*ret_why = why;
	return NULL;
}
