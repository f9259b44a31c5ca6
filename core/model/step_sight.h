/*
 * What the first reading of the detector of steps (steps.h) knows of one thread: every stack that
 * the thread was seen with is a context, the loops that it stands in and the work on it. Internal
 * to core/model: the plan (step_plan.c) asks it which loop has which work.
 */
#ifndef GM_MODEL_STEP_SIGHT_H
#define GM_MODEL_STEP_SIGHT_H

#include "model/steps_internal.h"

struct step_context {
	const struct standing *standing;
	uint32_t count;
	unsigned work;
	uint64_t hash;
};

/* What is known of one thread, while a plan is made. */
struct step_sight {
	const struct gm_steps *steps;
	const struct step_thread *thread;
	GM_ARRAY(struct step_context) contexts;
	unsigned work;    /* of all */
	uint8_t *ignored; /* by known loop: it cannot have steps */
	uint8_t *chosen;
};

bool gm_sight_init(
        struct step_sight *sight, const struct gm_steps *steps, const struct step_thread *thread);
void gm_sight_deinit(struct step_sight *sight);

/* The thread, or the task, that a plan is of; NULL: it is not known. */
const struct step_thread *gm_sight_thread(
        const struct gm_steps *steps, const struct gm_step_plan *plan);
/* A stack that the thread was seen with, from `stack` on; NULL: there is no further one. */
const struct summary *gm_sight_next_stack(const struct step_sight *sight, uint32_t *stack);
/* The work in a loop; of what is in no loop within that is marked in `without` (NULL: none is). */
unsigned gm_sight_work_in(const struct step_sight *sight, uint32_t loop, const uint8_t *without);
/* How many iterations of a loop the thread has begun. */
uint32_t gm_sight_iterations(const struct step_sight *sight, uint32_t loop);
/* How many of these had an update of the weights. */
uint32_t gm_sight_updates(const struct step_sight *sight, uint32_t loop);
/* Is one loop somewhere within another? */
bool gm_sight_is_within(const struct step_sight *sight, uint32_t inner, uint32_t outer);

#endif
