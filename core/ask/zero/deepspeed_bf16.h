/*
 * DeepSpeed's BF16_Optimizer (0.19.8: deepspeed/runtime/bf16_optimizer.py): a model in bfloat16
 * whose gradients are accumulated in another dtype, float32 by default. It divides masters and
 * state, as stage 1. It keeps the accumulated gradients of all parameters for the whole run, in one
 * flat tensor for each group.
 */
#ifndef GM_ASK_ZERO_DEEPSPEED_BF16_H
#define GM_ASK_ZERO_DEEPSPEED_BF16_H

#include "ask/zero/parameters.h"

void gm_zero_deepspeed_bf16(struct gm_zero_parameters *parameters, uint64_t object);

#endif
