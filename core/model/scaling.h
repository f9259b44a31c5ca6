/*
 * What gradient scaling (torch.amp.GradScaler) did to the optimizers' steps: each call of
 * GradScaler.step(), and whether the optimizer then stepped.
 *
 * Evidence, best first:
 *
 *   - the agent's records: what the host read of found_inf in step(). The scaler decides by this
 *     value alone.
 *   - of an optimizer that is fused and decides on the device: found_inf as it was in a simulated
 *     device's memory, or that the scale fell or did not, where the program read it before and
 *     after.
 *   - the range that PyTorch puts around each Optimizer.step().
 *   - stacks of allocations: some are under GradScaler._maybe_opt_step() and the optimizer's
 *     step(), so it ran. That there are none proves nothing, as an optimizer need not allocate.
 *
 * Where none of them decides, the outcome is unknown.
 */
#ifndef GM_MODEL_SCALING_H
#define GM_MODEL_SCALING_H

#include "model/model.h"
#include "model/scaled.h"

const char *gm_scaled_outcome_name(enum gm_scaled_outcome outcome);
const char *gm_scaled_evidence_name(enum gm_scaled_evidence evidence);

struct gm_error *gm_scaling_find(const struct gm_model *model, struct gm_scaling *ret_scaling);
void gm_scaling_deinit(struct gm_scaling *scaling);

#endif
