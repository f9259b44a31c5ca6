/* The question `phases`: how much was allocated in each part of a step, and outside of the steps.
 */
#ifndef GM_ASK_PHASES_H
#define GM_ASK_PHASES_H

#include "ask/context.h"
#include "ask/recording/stretch.h"

struct gm_phases {
	const struct gm_model *model;
	size_t device; /* SIZE_MAX: no events at all */
	/* over all steps, or over one; events 0: did not occur */
	struct gm_stretch items[GM_PHASE_COUNT];
};

/* step: the phases of this one only; 0: of the whole recording. GM_USAGE where there is no such
 * step. */
struct gm_error *gm_ask_phases(
        struct gm_context *context, uint32_t step, struct gm_phases *ret_phases);

#endif
