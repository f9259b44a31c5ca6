/* What is read of an optimizer of DeepSpeed's. In stage 3 a group is a sub-group, and this rank's
 * part of it the parts of its parameters, one after the other. */
#ifndef GM_ASK_ZERO_DEEPSPEED_ENGINE_H
#define GM_ASK_ZERO_DEEPSPEED_ENGINE_H

#include "ask/zero/parameters.h"

/* A group of parameters */
struct gm_zero_group {
	uint64_t parameters, flat, parts, mine, master, gradients; /* Python's objects */
	uint32_t first_offset; /* of this rank's part in its first parameter */
	bool has_first_offset;
	uint64_t part;                    /* elements of a rank's part */
	uint64_t owned;                   /* those of them that are parameters' */
	uint64_t flat_elements, elements; /* of the flat tensor; of its parameters */
	uint64_t storage, storage_offset; /* of the flat tensor */
	uint64_t element_size, state_bytes;
	bool has_state;
};

struct gm_zero_engine {
	struct gm_zero_parameters *parameters;
	GM_ARRAY(struct gm_zero_group) groups;
	struct gm_zero_group *group; /* the one that is read */
	GM_ARRAY(uint64_t) mine;     /* its parameters that this rank has a part of */
};

/* Adds a group's to a list with an entry for each, from a list of Python's. `offset`: of the member
 * of struct gm_zero_group. */
void gm_zero_engine_column(struct gm_zero_engine *engine, uint64_t list, size_t offset);
/* Of all optimizers but stage 3's, once the columns are in: the elements of a part, the flat
 * tensors and the number of ranks; and this rank's number, where `mine` and `first_offset` of a
 * group tell it. */
void gm_zero_engine_parts(struct gm_zero_engine *engine);
/* The groups' parameters, and what of them this rank owns, once its number is known. */
void gm_zero_engine_parameters(struct gm_zero_engine *engine);
/* Counts a group's copy. False: it could not be read. */
bool gm_zero_engine_master(
        struct gm_zero_engine *engine, uint32_t number, struct gm_tensor *ret_master);
/* Counts a further tensor with gradients, of a whole parameter before it is reduced, or of a copy.
 * 0: there is none. Not counted if it is a view of the storage `counted`; 0: of none. */
void gm_zero_engine_second_gradient(
        struct gm_zero_parameters *parameters, uint64_t gradient, uint64_t counted);
/* The state of the inner optimizer, which belongs to the copies. */
void gm_zero_engine_state(struct gm_zero_engine *engine, uint64_t optimizer);
/* Of stages 1 and 2, once the parameters and their owners are known: gradients, masters, state and
 * buffers of the optimizer. */
void gm_zero_engine_terms(struct gm_zero_engine *engine, uint64_t object);

#endif
