/*
 * DeepSpeed's stage 3 (0.19.8: deepspeed/runtime/zero/stage3.py, partition_parameters.py): a
 * parameter's tensor is empty, and its attribute ds_tensor is this rank's part of it, padded so
 * that all parts are equal. For a module's forward and backward it is gathered; small ones stay
 * whole. The parts of a sub-group's parameters have one copy in float32, which the inner optimizer
 * updates, and all gradients of the parts are in one flat tensor.
 */
#ifndef GM_ASK_ZERO_DEEPSPEED3_H
#define GM_ASK_ZERO_DEEPSPEED3_H

#include "ask/zero/parameters.h"

/* Fills in the sharding of such an optimizer. */
void gm_zero_deepspeed3(struct gm_zero_parameters *parameters, uint64_t object);

#endif
