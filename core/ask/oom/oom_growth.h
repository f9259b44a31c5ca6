/*
 * What grew until memory ran out: lines of which a block of each iteration is still there. Known of
 * a recording alone, of the loops that the failing request was in. Unlike `leaks` this looks at the
 * moment of the error, and at any loop: an evaluation that keeps its outputs is in no step.
 */
#ifndef GM_ASK_OOM_GROWTH_H
#define GM_ASK_OOM_GROWTH_H

#include "ask/oom/oom_answer.h"

/* Fills oom->growth; `lines` 0: nothing grew. */
struct gm_error *gm_oom_find_growth(
        const struct gm_model *model, uint32_t event, struct gm_oom *oom);

#endif
