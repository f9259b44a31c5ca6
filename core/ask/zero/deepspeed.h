/*
 * DeepSpeed's stages 1 and 2 (0.19.8: deepspeed/runtime/zero/stage_1_and_2.py): the parameters of a
 * group are views of a flat tensor, padded so that the ranks have equal parts of it. A rank has a
 * copy of its part, mostly in float32, which the inner optimizer updates, and its state.
 */
#ifndef GM_ASK_ZERO_DEEPSPEED_H
#define GM_ASK_ZERO_DEEPSPEED_H

#include "ask/zero/parameters.h"

/* Fills in the sharding of such an optimizer. */
void gm_zero_deepspeed(struct gm_zero_parameters *parameters, uint64_t object);

#endif
