/* Which loops have the steps: what the first reading of the detector of steps (steps.h) tells. */
#ifndef GM_MODEL_STEP_PLAN_H
#define GM_MODEL_STEP_PLAN_H

#include "model/step_types.h"

struct gm_steps;

/* What the first reading tells so far. */
void gm_steps_plan(struct gm_steps *steps, struct gm_step_plan *ret_plan);
/* The same where the user names a loop: the innermost one that was followed and has this line of
 * this file (the end of its path). False: there is none. */
bool gm_steps_plan_at(
        struct gm_steps *steps, const char *file, uint32_t line, struct gm_step_plan *ret_plan);
/* Plans for each of the loops that a stack stands in outside of the work, the innermost first; at
 * most `max`. */
size_t gm_steps_plans_of_stack(
        struct gm_steps *steps, uint32_t stack, struct gm_step_plan *ret_plans, size_t max);
/* The loops around those of a plan, the innermost first; at most `max`. */
size_t gm_steps_around(struct gm_steps *steps, const struct gm_step_plan *plan,
        struct gm_step_loop *ret_loops, size_t max);
/* The loops of given stacks in which the plan's thread calls modules, but which are not around the
 * plan's own: an evaluation after the training. In the order of the stacks; at most `max`. */
size_t gm_steps_beside(struct gm_steps *steps, const struct gm_step_plan *plan,
        const uint32_t *stacks, size_t count, struct gm_step_loop *ret_loops, size_t max);
/* Is a code object's loop one of the plan's? */
bool gm_step_plan_has(const struct gm_step_plan *plan, uint32_t code, uint32_t loop);
bool gm_step_plans_are_equal(const struct gm_step_plan *a, const struct gm_step_plan *b);

#endif
