/*
 * What gradient scaling (torch.amp.GradScaler) did to the optimizers' steps: each call of
 * GradScaler.step(), and whether the optimizer then stepped.
 *
 * Evidence, best first:
 *
 *   - the agent's records: the value of found_inf that the host read in step(). The scaler's
 * decision depends only on this value.
 *   - for a fused optimizer, which decides on the device: found_inf in a simulated device's memory,
 * or whether the scale fell, if the program read it before and after.
 *   - the range that PyTorch puts around each Optimizer.step().
 *   - stacks of allocations: if some are under GradScaler._maybe_opt_step() and the optimizer's
 *     step(), it ran. If there are none, nothing is proved, because an optimizer need not allocate.
 *
 * Otherwise the outcome is unknown.
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
