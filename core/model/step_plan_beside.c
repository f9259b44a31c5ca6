/* Loops beside those of a plan: an evaluation after the training has the same work, without
 * backward. */
#include "model/step_plan.h"
#include "model/step_sight.h"

static bool is_of(const struct known_loop *known, const struct gm_step_loop *loops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (loops[i].code == known->code && loops[i].loop == known->loop)
			return true;
	return false;
}

/* Is a loop around one of the plan's? */
static bool is_around(
        const struct step_sight *sight, const struct gm_step_plan *plan, uint32_t outer)
{
	for (uint32_t i = 0; i < sight->steps->known.count; i++)
		if (is_of(&sight->steps->known.items[i], plan->loops, plan->loop_count) &&
		        gm_sight_is_within(sight, i, outer))
			return true;
	return false;
}

size_t gm_steps_beside(struct gm_steps *steps, const struct gm_step_plan *plan,
        const uint32_t *stacks, size_t count, struct gm_step_loop *ret_loops, size_t max)
{
	size_t found = 0;
	struct step_sight sight = {0};
	const struct step_thread *thread = gm_sight_thread(steps, plan);
	if (!thread || !gm_sight_init(&sight, steps, thread)) {
		gm_sight_deinit(&sight);
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		const struct summary *summary = stacks[i] < steps->summaries.count
		                                        ? &steps->summaries.items[stacks[i]]
		                                        : NULL;
		uint32_t at = summary ? gm_steps_first_loop(thread, summary) : 0;
		for (; summary && at < summary->count && found < max; at++) {
			uint32_t number = summary->standing[at].known;
			const struct known_loop *known = &steps->known.items[number];
			const struct followed *followed = gm_steps_followed(thread, number);
			if (is_of(known, ret_loops, found) || !followed || !followed->iterations ||
			        !gm_sight_work_in(&sight, number, NULL) ||
			        is_around(&sight, plan, number))
				continue;
			ret_loops[found++] = (struct gm_step_loop){
			        known->code, known->loop, known->line, !followed->thick};
		}
	}
	gm_sight_deinit(&sight);
	return found;
}
