/* What a unit of FSDP1 (a FlatParamHandle and its flat parameter) tells of itself. */
#ifndef GM_ASK_ZERO_FSDP1_UNIT_H
#define GM_ASK_ZERO_FSDP1_UNIT_H

#include "ask/zero/reading.h"

/* A parameter of the model in the flat one */
struct gm_zero_original {
	uint64_t object, shape, part, name; /* Python's; object 0: only the flat one is there */
	uint64_t start, elements;           /* in the flat one, without padding */
	uint64_t owned;                     /* elements in this rank's part */
};

struct gm_zero_unit {
	uint64_t flat, shard, rank, world, strategy, module; /* Python's objects */
	uint64_t gathered, gathered_whole, low, saved_gradient, host_gradient;
	GM_ARRAY(struct gm_zero_original) originals;
};

/* False: no memory. */
bool gm_zero_unit_read(
        struct gm_zero_reading *reading, uint64_t handle, struct gm_zero_unit *ret_unit);
void gm_zero_unit_deinit(struct gm_zero_unit *unit);
/* Calls `visit` with what an optimizer may have of a unit: the flat parameter, or the originals. */
void gm_zero_unit_objects(
        struct gm_zero_reading *reading, uint64_t handle, gm_zero_visit visit, void *context);

#endif
