/* Gradient scaling, as stacks and ranges tell it. Internal to core/model. */
#ifndef GM_MODEL_SCALING_STACKS_H
#define GM_MODEL_SCALING_STACKS_H

#include "model/model.h"
#include "model/scaled.h"

/* Is a function of this plain name on the stack, and only grad_scaler.py's functions within it? */
bool gm_scaling_function(const struct gm_log *log, uint32_t stack, const char *name);
/* For a log without the agent's records: at most one call in each training step. */
struct gm_error *gm_scaling_find_by_stacks(
        const struct gm_model *model, struct gm_scaling *ret_scaling);

#endif
