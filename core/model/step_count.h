/* Iterations, and the steps that they make: what the second reading of steps.h tells. */
#ifndef GM_MODEL_STEP_COUNT_H
#define GM_MODEL_STEP_COUNT_H

#include <stdbool.h>
#include <stdint.h>

struct gm_steps;

/* How many iterations there are so far. */
uint32_t gm_steps_iteration_count(const struct gm_steps *steps);
/* The step of each iteration so far (ret_steps[iteration], [0] is 0): iterations over which
 * gradients add up, until the optimizer or zero_grad() takes them, are one. `goes_on`: the last one
 * may have work yet. Returns the number of steps. */
uint32_t gm_steps_of_iterations(const struct gm_steps *steps, bool goes_on, uint32_t *ret_steps);
/* The index of the plan's loop that an iteration is of. */
uint32_t gm_steps_loop_of_iteration(const struct gm_steps *steps, uint32_t iteration);

#endif
