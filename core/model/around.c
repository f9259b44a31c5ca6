/* Loops other than those that have the steps: those around them (epochs, rounds, trials), those
 * after them (evaluations), and those that an event is in. Their iterations are read when they are
 * needed. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "model/categories.h"
#include "model/internal.h"
#include "model/model.h"
#include "model/steps.h"

size_t gm_model_loops_around(
        const struct gm_model *model, struct gm_step_loop *ret_loops, size_t max)
{
	if (gm_model_steps_marked(model) || !model->readings.finding)
		return 0;
	return gm_steps_around(model->readings.finding, &model->plan, ret_loops, max);
}

size_t gm_model_loops_later(
        const struct gm_model *model, uint32_t event, struct gm_step_loop *ret_loops, size_t max)
{
	GM_ARRAY(uint32_t) stacks = {0};
	GM_ARRAY(uint8_t) seen = {0}; /* by stack: bit by id */
	size_t found = 0;
	bool fits = true;
	if (gm_model_steps_marked(model) || !model->readings.finding)
		return 0;
	for (uint32_t number = event + 1; fits && number < model->event_count; number++) {
		uint32_t stack = gm_model_site(model, number)->python_stack;
		while (fits && seen.count <= stack / 8)
			fits = gm_array_push(&seen, (uint8_t)0);
		if (!fits || seen.items[stack / 8] & 1u << (stack & 7))
			continue;
		seen.items[stack / 8] |= (uint8_t)(1u << (stack & 7));
		fits = gm_array_push(&stacks, stack);
	}
	if (fits)
		found = gm_steps_beside(model->readings.finding, &model->plan, stacks.items,
		        stacks.count, ret_loops, max);
	gm_array_deinit(&stacks);
	gm_array_deinit(&seen);
	return found;
}

void gm_model_iterations_deinit(struct gm_model_iterations *iterations)
{
	free(iterations->starts);
	free(iterations->ends);
	*iterations = (struct gm_model_iterations){0};
}

size_t gm_model_plans_of_event(
        const struct gm_model *model, uint64_t event, struct gm_step_plan *ret_plans, size_t max)
{
	uint32_t python, native;
	if (gm_model_steps_marked(model) || !model->readings.finding)
		return 0;
	gm_model_stacks(model, event, &python, &native);
	return gm_steps_plans_of_stack(model->readings.finding, python, ret_plans, max);
}

struct gm_error *gm_model_iterations(const struct gm_model *model, const struct gm_step_loop *loop,
        struct gm_model_iterations *ret_iterations)
{
	const struct gm_step_plan plan = {.rule = GM_STEPS_CHOSEN,
	        .modules = model->plan.modules,
	        .thread = model->plan.thread,
	        .outermost = model->plan.outermost,
	        .task = model->plan.task,
	        .loops = {*loop},
	        .loop_count = 1};
	return gm_model_iterations_of(model, &plan, ret_iterations);
}

struct gm_error *gm_model_iterations_of(const struct gm_model *model,
        const struct gm_step_plan *plan, struct gm_model_iterations *ret_iterations)
{
	struct gm_steps *steps = gm_model_steps_create(model);
	struct gm_model_iterations found = {0};
	GM_ARRAY(uint32_t) starts = {0};
	GM_ARRAY(uint32_t) ends = {0};
	struct gm_readers_place place = {0};
	bool fits = steps != NULL;
	if (fits)
		gm_steps_fix(steps, plan);
	for (uint32_t number = 0; fits && number < model->event_count; number++) {
		uint32_t iteration = gm_model_steps_follow(model, steps, number, &place);
		/* What has no Python stack counts to the iteration before it, but does not show
		 * that the loop still goes on: so Python's end frees what it kept. */
		bool shows = iteration && gm_model_site(model, number)->python_stack;
		if (shows)
			found.end = number + 1;
		for (; fits && iteration > starts.count;)
			fits = gm_array_push(&starts, number) && gm_array_push(&ends, number + 1);
		if (fits && shows)
			ends.items[iteration - 1] = number + 1;
	}
	gm_steps_destroy(steps);
	if (!fits) {
		gm_array_deinit(&starts);
		gm_array_deinit(&ends);
		return &gm_error_no_memory;
	}
	found.starts = starts.items;
	found.ends = ends.items;
	found.count = (uint32_t)starts.count;
	*ret_iterations = found;
	return NULL;
}

bool gm_model_choose_loop(
        struct gm_model *model, const char *file, uint32_t line, struct gm_error **ret_error)
{
	*ret_error = NULL;
	if (!file) {
		if (!model->chosen)
			return true;
		model->chosen = false;
		gm_steps_plan(model->readings.finding, &model->plan);
	} else {
		struct gm_step_plan plan;
		if (!gm_steps_plan_at(model->readings.finding, file, line, &plan))
			return false;
		model->chosen = true;
		model->plan = plan;
	}
	gm_categories_destroy(gm_take(model->categories));
	*ret_error = gm_model_assign_steps(model);
	return true;
}
