#include "ask/recording/amp_outcomes.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "model/marks.h"

const char *gm_amp_outcome_name(enum gm_amp_outcome outcome)
{
	static const char *const names[GM_AMP_OUTCOME_COUNT] = {
	        "unknown", "taken", "skipped", "partly_skipped", "not_asked"};
	return names[outcome];
}

/* In which training steps an optimizer ran, according to the range around Optimizer.step() and its
 * allocations. */
struct runs {
	uint8_t range, allocations;
};

static void find_runs(const struct gm_model *model, struct runs *runs, bool *ret_ranges)
{
	const struct gm_log *log = gm_model_log(model);
	uint64_t count = gm_log_event_count(log);
	*ret_ranges = false;
	for (size_t i = 0; i < gm_log_mark_count(log); i++) {
		struct gm_log_mark mark;
		gm_log_mark(log, i, &mark);
		if (!gm_marks_begins_optimizer_step(log, &mark))
			continue;
		*ret_ranges = true;
		if (mark.event && mark.event - 1 < count)
			runs[gm_model_step(model, mark.event - 1)].range = 1;
	}
	for (size_t i = 0; i < gm_model_run_count(model); i++) {
		const struct gm_model_run run = gm_model_run(model, i);
		if (run.phase == GM_PHASE_OPTIMIZER)
			runs[run.step].allocations = 1;
	}
}

/* For a step without a GradScaler. */
static void judge_unscaled(const struct runs *runs, bool ranges, struct gm_amp_step *step)
{
	if (runs->range || runs->allocations) {
		step->outcome = GM_AMP_STEP_TAKEN;
		step->evidence = runs->range ? GM_SCALED_BY_RANGE : GM_SCALED_BY_ALLOCATIONS;
	} else if (ranges) {
		step->outcome = GM_AMP_STEP_NOT_ASKED;
		step->evidence = GM_SCALED_BY_RANGE;
	}
}

static void judge(const struct gm_scaling *scaling, struct gm_amp_step *step)
{
	uint32_t taken = 0, not_asked = 0;
	for (uint32_t i = 0; i < step->calls; i++) {
		const struct gm_scaled_step *call = &scaling->steps[step->first_call + i];
		step->skipped += call->outcome == GM_SCALED_SKIPPED;
		taken += call->outcome == GM_SCALED_TAKEN;
		not_asked += call->outcome == GM_SCALED_NOT_ASKED;
		if (!step->evidence)
			step->evidence = call->evidence;
	}
	if (step->skipped && taken)
		step->outcome = GM_AMP_STEP_PARTLY;
	else if (step->skipped + taken + not_asked < step->calls)
		step->outcome = GM_AMP_STEP_UNKNOWN;
	else if (step->skipped)
		step->outcome = GM_AMP_STEP_SKIPPED;
	else
		step->outcome = taken ? GM_AMP_STEP_TAKEN : GM_AMP_STEP_NOT_ASKED;
}

/* Does some optimizer run regardless of the check's result, and skip on the device? */
static bool is_on_device(const struct gm_scaling *scaling, const struct gm_amp_step *step)
{
	for (uint32_t i = 0; i < step->calls; i++)
		if (scaling->steps[step->first_call + i].on_device)
			return true;
	return false;
}

static int by_step(const void *a, const void *b)
{
	const struct gm_scaled_step *x = a, *y = b;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

struct gm_error *gm_amp_outcomes(const struct gm_model *model, const struct gm_scaling *scaling,
        struct gm_amp_step **ret_steps, size_t *ret_count)
{
	uint32_t count = gm_model_step_count(model);
	struct gm_amp_step *steps = calloc((size_t)count + 1, sizeof(*steps));
	struct runs *runs = calloc((size_t)count + 1, sizeof(*runs));
	bool ranges;
	if (!steps || !runs) {
		free(steps);
		free(runs);
		return &gm_error_no_memory;
	}
	if (scaling->step_count)
		qsort(scaling->steps, scaling->step_count, sizeof(*scaling->steps), by_step);
	find_runs(model, runs, &ranges);
	for (uint32_t i = 1; i <= count; i++)
		steps[i - 1].step = i;
	for (size_t i = 0; i < scaling->step_count; i++) {
		uint32_t number = scaling->steps[i].step;
		if (!number || number > count)
			continue;
		if (!steps[number - 1].calls++)
			steps[number - 1].first_call = (uint32_t)i;
	}
	for (size_t i = 0; i < scaling->update_count; i++) {
		uint32_t number = scaling->updates[i].step;
		if (number && number <= count)
			steps[number - 1].update = &scaling->updates[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		if (steps[i].calls)
			judge(scaling, &steps[i]);
		else
			judge_unscaled(&runs[i + 1], ranges, &steps[i]);
		if (steps[i].outcome == GM_AMP_STEP_SKIPPED && runs[i + 1].range &&
		        !is_on_device(scaling, &steps[i]))
			steps[i].outcome = GM_AMP_STEP_PARTLY; /* another one without a scaler */
	}
	free(runs);
	*ret_steps = steps;
	*ret_count = count;
	return NULL;
}

struct gm_error *gm_amp_outcomes_only(
        const struct gm_model *model, struct gm_amp_step **ret_steps, size_t *ret_count)
{
	struct gm_scaling scaling;
	gm_try(gm_scaling_find(model, &scaling));
	struct gm_error *error = NULL;
	*ret_steps = NULL;
	*ret_count = 0;
	if (scaling.step_count)
		error = gm_amp_outcomes(model, &scaling, ret_steps, ret_count);
	gm_scaling_deinit(&scaling);
	for (size_t i = 0; i < *ret_count; i++) {
		(*ret_steps)[i].update = NULL;
		(*ret_steps)[i].first_call = 0;
	}
	return error;
}
