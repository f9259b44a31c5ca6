/*
 * torch.distributed.optim.ZeroRedundancyOptimizer (2.4 to 2.15:
 * torch/distributed/optim/zero_redundancy_optimizer.py): every rank has all parameters; an inner
 * optimizer has those that this rank owns, and their state.
 */
#ifndef GM_ASK_ZERO_REDUNDANCY_H
#define GM_ASK_ZERO_REDUNDANCY_H

#include "ask/zero/parameters.h"

/* Fills in the sharding of such an optimizer. */
void gm_zero_redundancy(struct gm_zero_parameters *parameters, uint64_t object);

#endif
