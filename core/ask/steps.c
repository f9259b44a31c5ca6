#include "ask/steps.h"

#include <stdlib.h>

#include "ask/leaks.h"
#include "ask/context.h"
#include "ask/recording/after_steps.h"
#include "ask/recording/leak.h"
#include "ask/recording/stretch.h"
#include "ask/recording/amp_outcomes.h"
#include "base/array.h"
#include "base/size.h"
#include "base/cleanup.h"

void gm_steps_answer_deinit(struct gm_steps_answer *answer)
{
	free(answer->steps);
	free(answer->outcomes);
	*answer = (struct gm_steps_answer){0};
}

/* The trend of the ends of the steps, from the second on: the first step creates the optimizer's
 * state and workspaces. */
static void find_growth(struct gm_steps_answer *answer)
{
	uint64_t last = 0, growth = 0;
	size_t seen = 0, compared = 0;
	bool same = true;
	answer->even = true;
	for (size_t i = 0; i < answer->step_count; i++) {
		const struct gm_stretch *step = &answer->steps[i];
		if (step->step < 2)
			continue;
		if (seen++) {
			uint64_t more = step->end > last ? step->end - last : 0;
			answer->even &= step->end == last;
			same &= compared == 0 || more == growth;
			growth = more;
			compared++;
		}
		last = step->end;
	}
	answer->even &= compared > 0;
	answer->growth = same && compared > 1 ? growth : 0;
}

/* The step of an event, as an index of steps; `ends`: the last event of each. */
static size_t step_at(const uint32_t *ends, size_t count, uint32_t event)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (ends[middle] < event)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Of what a step leaves behind, the part that the next one frees. */
static void find_replaced(struct gm_steps_answer *answer, const uint32_t *ends)
{
	for (size_t i = 0; i < answer->step_count; i++)
		answer->steps[i].followed = answer->steps[i].step && i + 1 < answer->step_count &&
		                            answer->steps[i + 1].step;
	for (size_t i = 0; i < gm_model_block_count(answer->model); i++) {
		const struct gm_block *block = gm_model_block(answer->model, i);
		if (block->alloc == GM_NO_EVENT || block->device != answer->device)
			continue;
		size_t step = step_at(ends, answer->step_count, block->alloc);
		if (step < answer->step_count && answer->steps[step].followed &&
		        gm_block_live_after(block, ends[step]) &&
		        !gm_block_live_after(block, ends[step + 1]))
			answer->steps[step].replaced += block->size;
	}
}

/* Of a loop that acts and learns, many iterations call a module without a backward pass. */
static void count_training(struct gm_steps_answer *answer)
{
	uint32_t last = 0;
	for (size_t i = 0; i < gm_model_run_count(answer->model); i++) {
		struct gm_model_run run = gm_model_run(answer->model, i);
		bool trains = run.phase == GM_PHASE_BACKWARD || run.phase == GM_PHASE_OPTIMIZER;
		if (!trains || !run.step || run.step == last)
			continue;
		answer->training++;
		last = run.step;
	}
}

static struct gm_error *find_kept_after(struct gm_steps_answer *answer)
{
	struct gm_after_steps after;
	gm_try(gm_after_steps(answer->model, &after));
	for (size_t i = gm_model_block_count(answer->model); i-- > 0;) {
		const struct gm_block *block = gm_model_block(answer->model, i);
		if (after.last == GM_NO_EVENT)
			break;
		if (block->alloc == GM_NO_EVENT || block->device != answer->device)
			continue;
		if (block->alloc <= after.last)
			break;
		if (block->alloc > after.end || !gm_block_live_after(block, after.end))
			continue;
		answer->kept_after += block->size;
		answer->kept_after_blocks++;
	}
	return NULL;
}

struct gm_error *gm_ask_steps_of(
        struct gm_context *context, size_t device, struct gm_steps_answer *ret_answer)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_steps_answer answer = {.model = model,
	        .device = device == SIZE_MAX ? gm_model_main_device(model) : device};
	GM_ARRAY(struct gm_stretch) steps = {0};
	GM_ARRAY(uint32_t) ends = {0}; /* the last event of each, on any device */
	if (answer.device == SIZE_MAX) {
		*ret_answer = answer;
		return NULL;
	}
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, answer.device);
	size_t run_index = 0;
	for (uint64_t before = 0; gm_state_walk_next(&walk); before = walk.usage.allocated) {
		struct gm_model_run run = gm_model_run(model, run_index);
		while (walk.number >= run.end)
			run = gm_model_run(model, ++run_index);
		if (!steps.count || steps.items[steps.count - 1].step != run.step) {
			const struct gm_stretch fresh = {.step = run.step};
			if (!gm_array_push(&steps, fresh)) {
				gm_array_deinit(&steps);
				gm_array_deinit(&ends);
				return &gm_error_no_memory;
			}
			uint32_t step_end = run.end;
			for (size_t i = run_index + 1; i < gm_model_run_count(model) &&
			                               gm_model_run(model, i).step == run.step;
			        i++)
				step_end = gm_model_run(model, i).end;
			if (!gm_array_push(&ends, step_end - 1)) {
				gm_array_deinit(&steps);
				gm_array_deinit(&ends);
				return &gm_error_no_memory;
			}
		}
		const struct gm_block *block =
		        walk.block == GM_NO_BLOCK ? NULL : gm_model_block(model, walk.block);
		gm_stretch_add(&steps.items[steps.count - 1], &walk, before, block,
		        ends.items[steps.count - 1]);
	}
	answer.steps = steps.items;
	answer.step_count = steps.count;
	find_replaced(&answer, ends.items);
	gm_array_deinit(&ends);
	struct gm_error *failed =
	        gm_amp_outcomes_only(model, &answer.outcomes, &answer.outcome_count);
	if (!failed)
		failed = find_kept_after(&answer);
	if (failed) {
		gm_steps_answer_deinit(&answer);
		return failed;
	}
	find_growth(&answer);
	count_training(&answer);
	if (answer.growth) {
		struct gm_leaks leaks;
		struct gm_error *error = gm_ask_leaks_of(context, answer.device, &leaks);
		if (error) {
			gm_steps_answer_deinit(&answer);
			return error;
		}
		answer.leaks = leaks.count != 0;
		answer.few = true;
		for (uint32_t i = 0; i < leaks.loop_count; i++)
			answer.few &= leaks.loops[i].to < leaks.loops[i].from;
		gm_leaks_deinit(&leaks);
	}
	*ret_answer = answer;
	return NULL;
}

struct gm_error *gm_ask_steps(struct gm_context *context, struct gm_steps_answer *ret_answer)
{
	return gm_ask_steps_of(context, SIZE_MAX, ret_answer);
}
