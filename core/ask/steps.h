/* The question `steps`: how much was allocated in each step of the training loop. */
#ifndef GM_ASK_STEPS_H
#define GM_ASK_STEPS_H

#include "ask/context.h"
#include "ask/recording/stretch.h"
#include "model/model.h"

struct gm_amp_step; /* ask/recording/amp_outcomes.h */

struct gm_steps_answer {
	const struct gm_model *model;
	size_t device; /* SIZE_MAX: no events at all */
	struct gm_stretch *
	        steps; /* in order of events: what is before, between and after passes too; owned */
	size_t step_count;
	uint32_t training; /* the steps that have a backward pass or an update of the weights; 0: no
	                      such phase was seen */
	uint64_t growth; /* what each step from the third on ends with more than the one before; 0:
	                    not the same */
	bool leaks;      /* and leaks finds lines that pile up; where `growth` is not 0 */
	bool few;        /* there are too few steps for leaks to look for any; the same */
	struct gm_amp_step *outcomes; /* of each step's optimizer, by step - 1; NULL: the program
	                                 has no GradScaler; owned */
	size_t outcome_count;
	/* what was allocated after the last step and not released by the end of the program */
	uint64_t kept_after, kept_after_blocks;
	/* each step from the third on ends with as much as the one before; false with fewer than
	 * three */
	bool even;
};

/* Of the main device. */
struct gm_error *gm_ask_steps(struct gm_context *context, struct gm_steps_answer *ret_answer);
/* Of another one; SIZE_MAX: the main device. */
struct gm_error *gm_ask_steps_of(
        struct gm_context *context, size_t device, struct gm_steps_answer *ret_answer);
void gm_steps_answer_deinit(struct gm_steps_answer *answer);

#endif
