/*
 * FSDP2 (torch.distributed.fsdp.fully_shard, 2.6 to 2.15: _fully_shard/_fsdp_param.py): a parameter
 * is a DTensor, whole by its shape, of which each rank has a part as a tensor of its own, padded to
 * the size of the largest part. Before it is used it is gathered into a buffer, whose storage is
 * released afterwards. An ordinary optimizer updates the parts.
 */
#ifndef GM_ASK_ZERO_FSDP2_H
#define GM_ASK_ZERO_FSDP2_H

#include "ask/zero/parameters.h"

/* Has an optimizer parameters of FSDP2? */
bool gm_zero_has_fsdp2(struct gm_zero_reading *reading, uint64_t optimizer);
/* Fills in the sharding of such an optimizer. */
void gm_zero_fsdp2(struct gm_zero_parameters *parameters, uint64_t optimizer);

#endif
