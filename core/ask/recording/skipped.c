#include "ask/recording/skipped.h"

#include <stdlib.h>

#include "ask/recording/amp_outcomes.h"
#include "base/cleanup.h"

/* The last event of a step. */
static uint32_t end_of_step(const struct gm_model *model, uint32_t step, uint32_t *ret_first)
{
	uint32_t end = 0;
	bool found = false;
	for (size_t i = 0; i < gm_model_run_count(model); i++) {
		const struct gm_model_run run = gm_model_run(model, i);
		if (run.step != step)
			continue;
		if (!found)
			*ret_first = run.first;
		found = true;
		end = run.end - 1;
	}
	return end;
}

struct gm_error *gm_skipped_find(const struct gm_model *model, struct gm_skipped *ret_skipped)
{
	struct gm_amp_step *steps;
	size_t count;
	struct gm_skipped skipped = {0};
	gm_try(gm_amp_outcomes_only(model, &steps, &count));
	for (size_t i = 0; i < count; i++)
		if (steps[i].skipped && !skipped.count++)
			skipped.step = steps[i].step;
	free(steps);
	if (skipped.count)
		skipped.last = end_of_step(model, skipped.step, &skipped.first);
	*ret_skipped = skipped;
	return NULL;
}
