/* Plans for the loop that the user names and for those that a stack stands in, the loops around
 * those of a plan, and the comparison of two plans. */
#include <string.h>

#include "model/step_plan.h"
#include "model/step_sight.h"

/* The iterations of one loop, in the thread or task that has most of them. False: nobody has any.
 */
static bool plan_loop(const struct gm_steps *steps, uint32_t loop, struct gm_step_plan *ret_plan)
{
	const struct step_thread *thread = NULL;
	bool apart = false;
	for (size_t i = 0; i < steps->threads.count; i++) {
		const struct followed *followed = gm_steps_followed(&steps->threads.items[i], loop);
		apart |= followed && followed->shared;
	}
	for (size_t i = 0; i < steps->threads.count; i++) {
		const struct step_thread *one = &steps->threads.items[i];
		const struct followed *followed = gm_steps_followed(one, loop);
		if (followed && followed->named_iterations && (one->task != 0) == apart &&
		        (!thread || followed->named_iterations >
		                            gm_steps_followed(thread, loop)->named_iterations))
			thread = one;
	}
	if (!thread)
		return false;
	const struct known_loop *known = &steps->known.items[loop];
	const struct followed *followed = gm_steps_followed(thread, loop);
	*ret_plan = (struct gm_step_plan){.rule = GM_STEPS_CHOSEN,
	        .modules = steps->modules,
	        .thread = thread->id,
	        .outermost = thread->outermost,
	        .task = thread->task,
	        .loops = {{known->code, known->loop, known->line, !followed->thick}},
	        .loop_count = 1};
	return true;
}

bool gm_steps_plan_at(
        struct gm_steps *steps, const char *file, uint32_t line, struct gm_step_plan *ret_plan)
{
	uint32_t best = UINT32_MAX;
	size_t length = strlen(file);
	for (uint32_t i = 0; i < steps->known.count; i++) {
		const struct known_loop *known = &steps->known.items[i];
		size_t whole = known->file ? strlen(known->file) : 0;
		bool named = known->file && whole >= length &&
		             strcmp(known->file + whole - length, file) == 0 &&
		             (whole == length || known->file[whole - length - 1] == '/');
		if (!named || line < known->line || line > known->line_end)
			continue;
		if (best == UINT32_MAX || known->line > steps->known.items[best].line)
			best = i;
	}
	return best != UINT32_MAX && plan_loop(steps, best, ret_plan);
}

size_t gm_steps_plans_of_stack(
        struct gm_steps *steps, uint32_t stack, struct gm_step_plan *ret_plans, size_t max)
{
	size_t found = 0;
	const struct summary *summary = stack ? gm_steps_summary(steps, stack) : NULL;
	for (uint32_t i = summary ? summary->count : 0; i-- > 0 && found < max;)
		found += plan_loop(steps, summary->standing[i].known, &ret_plans[found]);
	return found;
}

size_t gm_steps_around(struct gm_steps *steps, const struct gm_step_plan *plan,
        struct gm_step_loop *ret_loops, size_t max)
{
	size_t found = 0;
	struct step_sight sight = {0};
	const struct step_thread *thread = gm_sight_thread(steps, plan);
	if (!thread || !gm_sight_init(&sight, steps, thread)) {
		gm_sight_deinit(&sight);
		return 0;
	}
	/* the surrounding loops, by distance: in each context those before one of the plan's */
	for (uint32_t out = 1; found < max && out < 64; out++) {
		for (size_t i = 0; i < sight.contexts.count && found < max; i++) {
			const struct step_context *context = &sight.contexts.items[i];
			uint32_t at = 0;
			bool is_plan_s = false;
			for (; at < context->count && !is_plan_s; at += !is_plan_s) {
				const struct known_loop *known =
				        &steps->known.items[context->standing[at].known];
				for (uint32_t j = 0; j < plan->loop_count; j++)
					is_plan_s |= plan->loops[j].code == known->code &&
					             plan->loops[j].loop == known->loop;
			}
			if (!is_plan_s || at < out)
				continue;
			const struct known_loop *known =
			        &steps->known.items[context->standing[at - out].known];
			bool there = false;
			for (size_t j = 0; j < found; j++)
				there |= ret_loops[j].code == known->code &&
				         ret_loops[j].loop == known->loop;
			if (!there)
				ret_loops[found++] = (struct gm_step_loop){
				        known->code, known->loop, known->line, false};
		}
	}
	gm_sight_deinit(&sight);
	return found;
}

bool gm_step_plans_are_equal(const struct gm_step_plan *a, const struct gm_step_plan *b)
{
	if (a->rule != b->rule || a->work != b->work || a->modules != b->modules ||
	        a->thread != b->thread || a->outermost != b->outermost || a->task != b->task ||
	        a->loop_count != b->loop_count || a->unit != b->unit ||
	        a->unit_called != b->unit_called)
		return false;
	for (uint32_t i = 0; i < a->loop_count; i++)
		if (a->loops[i].code != b->loops[i].code || a->loops[i].loop != b->loops[i].loop ||
		        a->loops[i].thin != b->loops[i].thin)
			return false;
	return true;
}
