/* Of each training step, the result of the optimizer's step. */
#ifndef GM_ASK_AMP_OUTCOMES_H
#define GM_ASK_AMP_OUTCOMES_H

#include "ask/recording/amp_facts.h"

const char *gm_amp_outcome_name(enum gm_amp_outcome outcome);

/* The outcome of every training step, without the rest. The caller frees *ret_steps. */
struct gm_error *gm_amp_outcomes(const struct gm_model *model, const struct gm_scaling *scaling,
        struct gm_amp_step **ret_steps, size_t *ret_count);

/* The same alone, of a program that has a GradScaler; of another *ret_steps is NULL. `update` and
 * `first_call` are not filled in. */
struct gm_error *gm_amp_outcomes_only(
        const struct gm_model *model, struct gm_amp_step **ret_steps, size_t *ret_count);

#endif
