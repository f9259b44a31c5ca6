/* steps and phases: how much was allocated in each pass of the training loop, and in each part of a
 * pass. */
#ifndef GM_ASK_STEPS_H
#define GM_ASK_STEPS_H

#include "ask/context.h"
#include "model/model.h"

/* What happened in a stretch of events: before the loop, in a pass of it, or in a phase. Bytes. */
struct gm_stretch {
	uint32_t step;        /* 0: outside the loop */
	enum gm_phase phase;  /* of gm_steps_answer.phases */
	uint32_t first, last; /* events */
	uint64_t events;
	uint64_t start,
	        end; /* allocated before and after it; of phases only `end` of the last one */
	uint64_t peak;
	uint32_t peak_event;
	uint64_t blocks, bytes;     /* allocated in it */
	uint64_t kept_blocks, kept; /* of these, what was still allocated when it ended */
};

struct gm_steps_answer {
	const struct gm_model *model;
	size_t device; /* SIZE_MAX: no events at all */
	struct gm_stretch *
	        steps; /* in order of events: what is before, between and after passes too; owned */
	size_t step_count;
	struct gm_stretch
	        phases[GM_PHASE_COUNT]; /* over all steps, or over one; events 0: did not occur */
	uint64_t growth; /* what each step from the third on ends with more than the one before; 0:
	                    not the same */
	bool leaks;      /* and leaks finds lines that pile up; where `growth` is not 0 */
	bool even;       /* all steps from the second on end with as much as they began with */
};

/* step: the phases of this one only; 0: of the whole record. GM_USAGE where there is no such
 * step. */
struct gm_error *gm_ask_steps(
        struct gm_context *context, uint32_t step, struct gm_steps_answer *ret_answer);
void gm_steps_answer_deinit(struct gm_steps_answer *answer);

#endif
