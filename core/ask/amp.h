/*
 * amp: what mixed precision did in a recording. Which optimizer steps were skipped, and how that is
 * known (model/scaling.h); the scaler's settings and scale; when the optimizer's state was made;
 * autocast's copies of parameters; half-precision gradients that became float32; which statement
 * released a step's gradients; and the bytes of it all.
 */
#ifndef GM_ASK_AMP_H
#define GM_ASK_AMP_H

#include "ask/context.h"
#include "ask/recording/amp_facts.h"

const char *gm_amp_end_name(enum gm_amp_end end);

struct gm_error *gm_ask_amp(struct gm_context *context, struct gm_amp *ret_amp);
void gm_amp_deinit(struct gm_amp *amp);
#endif
