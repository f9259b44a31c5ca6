/* The parameters of a sharding, their gradients, their state and the buffers that move them. */
#ifndef GM_ASK_ZERO_PARAMETERS_H
#define GM_ASK_ZERO_PARAMETERS_H

#include "ask/zero/ledger.h"
#include "ask/zero/names.h"

struct gm_zero_parameters {
	struct gm_zero_reading *reading;
	const struct gm_zero_names *names;
	struct gm_zero_ledger *ledger;
	struct gm_zero_sharding *sharding;
	size_t capacity;
	struct gm_map objects, tensors; /* -> the parameter's number, from 1 */
};

void gm_zero_parameters_deinit(struct gm_zero_parameters *parameters);
/* Adds one. NULL: it was there, or is not a tensor. The pointer holds until the next one. */
struct gm_zero_parameter *gm_zero_parameter_add(struct gm_zero_parameters *parameters,
        uint64_t object, uint32_t group, struct gm_tensor *ret_tensor);
/* The same, of one that is known to be new: `whole` is the parameter as the model has it, `part`
 * the tensor in which this rank keeps it. */
struct gm_zero_parameter *gm_zero_parameter_put(struct gm_zero_parameters *parameters,
        uint64_t object, uint32_t group, const struct gm_tensor *whole,
        const struct gm_tensor *part);
/* Over how many ranks a parameter is divided, and which of them this is; `first`: of the first one.
 * Where parameters differ, neither is known. */
void gm_zero_rank(struct gm_zero_parameters *parameters, uint64_t rank_object,
        uint64_t world_object, bool first);
/* Adds those of an optimizer's param_groups. */
void gm_zero_parameters_of_groups(struct gm_zero_parameters *parameters, uint64_t groups);
/* By Python's object. NULL: it is none of them. The pointer holds until one is added. */
struct gm_zero_parameter *gm_zero_parameter_of(
        struct gm_zero_parameters *parameters, uint64_t object);
/* Their .grad */
void gm_zero_gradients(struct gm_zero_parameters *parameters);
/* A tensor with a gradient of a parameter, or of a part of it. `apart`: only where it is in another
 * storage than the gradient that is known. */
void gm_zero_gradient(struct gm_zero_parameters *parameters, struct gm_zero_parameter *parameter,
        const struct gm_tensor *gradient, bool apart);
/* An optimizer's `state`. `again`: of one that should have nothing beside what was counted. */
void gm_zero_state(struct gm_zero_parameters *parameters, uint64_t state, bool again);
/* A tensor in the state of an optimizer, with the bytes that it adds. False: it is none, or was
 * counted. */
bool gm_zero_state_tensor(struct gm_zero_parameters *parameters, uint64_t object,
        struct gm_tensor *ret_tensor, uint64_t *ret_bytes);
/* A flat tensor for communication, of `count` parameters; 0: not known. */
void gm_zero_buffer(struct gm_zero_parameters *parameters, enum gm_zero_bucket_kind kind,
        const struct gm_tensor *tensor, uint64_t count);
/* The same for a Python object. False: it is not a tensor. */
bool gm_zero_buffer_of(
        struct gm_zero_parameters *parameters, enum gm_zero_bucket_kind kind, uint64_t object);

#endif
