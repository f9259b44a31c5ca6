/* Phases of runs that only later events decide. Internal to core/model. */
#ifndef GM_MODEL_RUN_PHASES_H
#define GM_MODEL_RUN_PHASES_H

#include "model/internal.h"
#include "model/modes.h"

/* Gives the runs from `from` on the phases that the runs before and after them decide: data of a
 * micro-batch, and evaluations where the grad mode was not recorded. */
void gm_run_phases_look_around(struct gm_model *model, size_t from);
/* The grad mode at event `now` decides the phase of earlier events. False: no memory. */
bool gm_run_phases_change(
        struct gm_model *model, uint32_t now, const struct gm_mode_change *change);

#endif
