/*
 * FSDP1 (torch.distributed.fsdp.FullyShardedDataParallel, 2.4 to 2.15: _flat_param.py): the
 * parameters of a unit lie one after the other in a flat one, of which each rank has an equal part,
 * padded. Before the unit runs, its flat parameter is gathered into a buffer, whose storage is
 * released afterwards. An ordinary optimizer updates the flat parameters, or (use_orig_params) the
 * model's own, which are views of this rank's part.
 */
#ifndef GM_ASK_ZERO_FSDP1_H
#define GM_ASK_ZERO_FSDP1_H

#include "ask/zero/parameters.h"

/* Notes which objects belong to which unit, before the following are called. */
void gm_zero_find_fsdp1(struct gm_zero_reading *reading);
/* Has an optimizer parameters of FSDP1? */
bool gm_zero_has_fsdp1(struct gm_zero_reading *reading, uint64_t optimizer);
/* Fills in the sharding of such an optimizer. */
void gm_zero_fsdp1(struct gm_zero_parameters *parameters, uint64_t optimizer);

#endif
