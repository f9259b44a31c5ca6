#include "ask/zero/deepspeed_bf16.h"

#include <stddef.h>

#include "ask/zero/deepspeed_engine.h"

/* ---- gradients ---- */

/* Those of a group, accumulated: one flat tensor, with the padding of the parameters' flat tensor.
 * Returns its storage, 0: none. */
static uint64_t read_accumulated(struct gm_zero_engine *engine, uint32_t number)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	const struct gm_zero_group *group = &engine->groups.items[number];
	struct gm_tensor flat;
	uint64_t bytes;
	if (!gm_zero_tensor(parameters->reading, group->gradients, &flat) ||
	        flat.numel < group->elements) {
		sharding->unread++;
		return 0;
	}
	if (!gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_GRADIENTS, &flat, &bytes))
		return flat.storage;
	uint64_t size = flat.element_bits / 8;
	sharding->terms[GM_ZERO_GRADIENTS].differences[GM_ZERO_PADDING] +=
	        (int64_t)((flat.numel - group->elements) * size);
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->group != number)
			continue;
		parameter->has_gradient = true;
		parameter->gradient_elements = parameter->elements;
		parameter->gradient_bytes = parameter->elements * size;
	}
	return flat.storage;
}

/* The .grad of parameters and of the master copy are second copies, unless they are views of the
 * accumulated gradients. */
static void read_group(struct gm_zero_engine *engine, uint32_t number)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	const struct gm_zero_sharding *sharding = parameters->sharding;
	uint64_t accumulated = read_accumulated(engine, number);
	struct gm_tensor tensor;
	for (size_t i = 0; i < sharding->parameter_count; i++)
		if (sharding->parameters[i].group == number &&
		        gm_torch_tensor(parameters->reading->torch, sharding->parameters[i].tensor,
		                &tensor))
			gm_zero_engine_second_gradient(parameters, tensor.grad, accumulated);
	if (gm_zero_engine_master(engine, number, &tensor))
		gm_zero_engine_second_gradient(parameters, tensor.grad, accumulated);
}

void gm_zero_deepspeed_bf16(struct gm_zero_parameters *parameters, uint64_t object)
{
	enum { GROUPS, FLAT, PARTS, MASTERS, GRADIENTS, RANK, INNER, COUNT };
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[COUNT] = {
	        [GROUPS] = {"bf16_groups", 0},
	        [FLAT] = {"bf16_groups_flat", 0},
	        [PARTS] = {"bf16_partitioned_groups", 0},
	        [MASTERS] = {"fp32_groups_flat_partition", 0},
	        [GRADIENTS] = {"fp32_groups_gradients_flat", 0},
	        [RANK] = {"dp_rank", 0},
	        [INNER] = {"optimizer", 0},
	};
	struct gm_zero_engine engine = {.parameters = parameters};
	gm_zero_attributes(reading, object, own, COUNT);
	sharding->scheme = GM_ZERO_DEEPSPEED;
	sharding->stage = 1;
	sharding->terms[GM_ZERO_MASTERS].partitioned = true;
	sharding->terms[GM_ZERO_STATE].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, own[INNER].object);

	gm_zero_engine_column(&engine, own[FLAT].object, offsetof(struct gm_zero_group, flat));
	gm_zero_engine_column(
	        &engine, own[GROUPS].object, offsetof(struct gm_zero_group, parameters));
	gm_zero_engine_column(&engine, own[PARTS].object, offsetof(struct gm_zero_group, parts));
	gm_zero_engine_column(&engine, own[MASTERS].object, offsetof(struct gm_zero_group, master));
	gm_zero_engine_column(
	        &engine, own[GRADIENTS].object, offsetof(struct gm_zero_group, gradients));
	sharding->layout_unknown = engine.groups.count == 0;
	gm_zero_engine_parts(&engine);
	sharding->has_rank = sharding->has_world &&
	                     gm_zero_number(reading, own[RANK].object, &sharding->rank) &&
	                     sharding->rank < sharding->world;
	if (!sharding->has_rank)
		sharding->rank = 0;
	gm_zero_engine_parameters(&engine);
	for (size_t i = 0; i < engine.groups.count; i++)
		read_group(&engine, (uint32_t)i);
	gm_zero_engine_state(&engine, own[INNER].object);
	gm_array_deinit(&engine.groups);
	gm_array_deinit(&engine.mine);
}
