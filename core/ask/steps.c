#include "ask/steps.h"

#include <stdlib.h>

#include "ask/leaks.h"
#include "ask/context.h"
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

struct gm_error *gm_ask_steps(struct gm_context *context, struct gm_steps_answer *ret_answer)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_steps_answer answer = {.model = model, .device = gm_model_main_device(model)};
	GM_ARRAY(struct gm_stretch) steps = {0};
	if (answer.device == SIZE_MAX) {
		*ret_answer = answer;
		return NULL;
	}
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, answer.device);
	size_t run_index = 0;
	uint32_t step_end = 0; /* the last event of the current range, on any device */
	for (uint64_t before = 0; gm_state_walk_next(&walk); before = walk.usage.allocated) {
		struct gm_model_run run = gm_model_run(model, run_index);
		while (walk.number >= run.end)
			run = gm_model_run(model, ++run_index);
		if (!steps.count || steps.items[steps.count - 1].step != run.step) {
			const struct gm_stretch fresh = {.step = run.step};
			if (!gm_array_push(&steps, fresh)) {
				gm_array_deinit(&steps);
				return &gm_error_no_memory;
			}
			step_end = run.end;
			for (size_t i = run_index + 1; i < gm_model_run_count(model) &&
			                               gm_model_run(model, i).step == run.step;
			        i++)
				step_end = gm_model_run(model, i).end;
		}
		const struct gm_block *block =
		        walk.block == GM_NO_BLOCK ? NULL : gm_model_block(model, walk.block);
		gm_stretch_add(&steps.items[steps.count - 1], &walk, before, block, step_end - 1);
	}
	answer.steps = steps.items;
	answer.step_count = steps.count;
	struct gm_error *failed =
	        gm_amp_outcomes_only(model, &answer.outcomes, &answer.outcome_count);
	if (failed) {
		gm_steps_answer_deinit(&answer);
		return failed;
	}
	find_growth(&answer);
	if (answer.growth) {
		struct gm_leaks leaks;
		struct gm_error *error = gm_ask_leaks(context, &leaks);
		if (error) {
			gm_steps_answer_deinit(&answer);
			return error;
		}
		answer.leaks = leaks.count != 0;
		gm_leaks_deinit(&leaks);
	}
	*ret_answer = answer;
	return NULL;
}
