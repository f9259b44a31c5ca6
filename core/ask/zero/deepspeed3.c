#include "ask/zero/deepspeed3.h"

#include <stddef.h>

#include "ask/zero/deepspeed_engine.h"

struct stage3 {
	struct gm_zero_engine engine;
	uint64_t object; /* the optimizer */
};

/* ---- parameters ---- */

static void add_parameter(struct gm_zero_engine *engine, uint64_t object, uint32_t number)
{
	enum { PART, SHAPE, RANK, WORLD, COUNT };
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[COUNT] = {
	        [PART] = {"ds_tensor", 0},
	        [SHAPE] = {"ds_shape", 0},
	        [RANK] = {"ds_zero_partition_rank", 0},
	        [WORLD] = {"ds_zero_partition_world_size", 0},
	};
	struct gm_tensor whole, part;
	uint32_t rank;
	if (gm_zero_parameter_of(parameters, object))
		return;
	gm_zero_attributes(parameters->reading, object, own, COUNT);
	if (!gm_zero_whole_tensor(parameters->reading, object, &whole) ||
	        !gm_zero_tensor(parameters->reading, own[PART].object, &part) ||
	        !gm_zero_shape(parameters->reading, own[SHAPE].object, &whole)) {
		sharding->unread++;
		return;
	}
	bool first = sharding->parameter_count == 0;
	struct gm_zero_parameter *parameter =
	        gm_zero_parameter_put(parameters, object, number, &whole, &part);
	if (!parameter)
		return;
	gm_zero_rank(parameters, own[RANK].object, own[WORLD].object, first);
	if (gm_zero_number(parameters->reading, own[RANK].object, &rank)) {
		uint64_t before = rank * part.numel;
		uint64_t left = before < whole.numel ? whole.numel - before : 0;
		parameter->owned = left < part.numel ? left : part.numel;
		/* of a parameter that is smaller than its part, rank 0 has all */
		parameter->spread = whole.numel > part.numel;
		parameter->owner = parameter->spread ? GM_ZERO_NO_RANK : 0;
		sharding->terms[GM_ZERO_PARAMETERS].differences[GM_ZERO_PADDING] +=
		        (int64_t)((part.numel - parameter->owned) * parameter->element_size);
	}
	if (number < engine->groups.count) {
		engine->groups.items[number].part += part.numel;
		engine->groups.items[number].owned += parameter->owned;
	}
}

static bool see_trained(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	add_parameter(engine, item, (uint32_t)(engine->group - engine->groups.items));
	return !engine->parameters->reading->no_memory;
}

/* The optimizer has the trained parameters. All parameters of its model refer to the optimizer. */
static bool see_any(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct stage3 *stage3 = context;
	struct gm_zero_engine *engine = &stage3->engine;
	struct gm_zero_attribute own[] = {{"_z3_optimizer", 0}};
	if (gm_zero_parameter_of(engine->parameters, value))
		return true;
	gm_zero_attributes(engine->parameters->reading, value, own, 1);
	if (own[0].object == stage3->object)
		add_parameter(engine, value, (uint32_t)engine->groups.count);
	return !engine->parameters->reading->no_memory;
}

static void read_parameters(struct stage3 *stage3)
{
	struct gm_zero_engine *engine = &stage3->engine;
	struct gm_zero_reading *reading = engine->parameters->reading;
	for (size_t i = 0; i < engine->groups.count; i++) {
		engine->group = &engine->groups.items[i];
		gm_zero_items(reading, engine->group->parameters, see_trained, engine);
	}
	for (size_t i = 0; i < reading->modules.count && !reading->no_memory; i++) {
		struct gm_zero_attribute own[] = {{"_parameters", 0}};
		gm_zero_attributes(reading, reading->modules.items[i], own, 1);
		gm_zero_pairs(reading, own[0].object, see_any, stage3);
	}
}

/* ---- gradients ---- */

/* Those of the parts are in one tensor, in the order of the groups, each as large as its part. */
static void read_partitions(struct gm_zero_engine *engine, uint64_t flat)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_tensor tensor;
	uint64_t bytes, owned = 0;
	for (size_t i = 0; i < engine->groups.count; i++)
		owned += engine->groups.items[i].owned;
	if (!gm_zero_tensor(parameters->reading, flat, &tensor) || tensor.numel < owned) {
		sharding->unread++;
		return;
	}
	if (!gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_GRADIENTS, &tensor, &bytes))
		return;
	uint64_t size = tensor.element_bits / 8;
	sharding->terms[GM_ZERO_GRADIENTS].differences[GM_ZERO_PADDING] +=
	        (int64_t)((tensor.numel - owned) * size);
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->group >= engine->groups.count)
			continue;
		parameter->has_gradient = true;
		parameter->gradient_elements = parameter->owned;
		parameter->gradient_bytes = parameter->owned * size;
	}
}

static void read_whole_gradients(struct gm_zero_parameters *parameters)
{
	for (size_t i = 0; i < parameters->sharding->parameter_count; i++) {
		struct gm_tensor tensor;
		if (gm_torch_tensor(parameters->reading->torch,
		            parameters->sharding->parameters[i].tensor, &tensor))
			gm_zero_engine_second_gradient(parameters, tensor.grad, 0);
	}
}

/* --- what is gathered now --------------------------------------------------------------------- */

static void read_gathered(struct gm_zero_parameters *parameters)
{
	struct gm_zero_reading *reading = parameters->reading;
	for (size_t i = 0; i < parameters->sharding->parameter_count; i++) {
		const struct gm_zero_parameter *parameter = &parameters->sharding->parameters[i];
		struct gm_zero_attribute own[] = {{"ds_persist", 0}};
		struct gm_tensor tensor;
		uint32_t stays = 0;
		/* a released parameter has an empty tensor */
		if (!gm_torch_tensor(reading->torch, parameter->tensor, &tensor) ||
		        !gm_zero_plausible(&tensor) || !tensor.numel)
			continue;
		gm_zero_attributes(reading, parameter->object, own, 1);
		gm_zero_number(reading, own[0].object, &stays);
		gm_zero_buffer(parameters,
		        stays ? GM_ZERO_BUCKET_PERSISTENT : GM_ZERO_BUCKET_GATHERED, &tensor, 0);
	}
}

/* ---- buffers ---- */

static bool see_bucket(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_zero_parameters *parameters = context;
	struct gm_zero_attribute own[] = {{"buffer", 0}};
	gm_zero_attributes(parameters->reading, value, own, 1);
	gm_zero_buffer_of(parameters, GM_ZERO_BUCKET_GRADIENTS, own[0].object);
	return true;
}

void gm_zero_deepspeed3(struct gm_zero_parameters *parameters, uint64_t object)
{
	enum { GROUPS, MASTERS, INNER, GRADIENTS, BUCKETS, COUNT };
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[COUNT] = {
	        [GROUPS] = {"fp16_groups", 0},
	        [MASTERS] = {"fp32_partitioned_groups_flat", 0},
	        [INNER] = {"optimizer", 0},
	        [GRADIENTS] = {"grad_partitions_flat_buffer", 0},
	        [BUCKETS] = {"ipg_buckets", 0},
	};
	struct stage3 stage3 = {{.parameters = parameters}, object};
	struct gm_zero_engine *engine = &stage3.engine;
	gm_zero_attributes(reading, object, own, COUNT);
	sharding->scheme = GM_ZERO_DEEPSPEED;
	sharding->stage = 3;
	for (int part = GM_ZERO_PARAMETERS; part <= GM_ZERO_STATE; part++)
		sharding->terms[part].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, own[INNER].object);
	gm_zero_engine_column(
	        engine, own[GROUPS].object, offsetof(struct gm_zero_group, parameters));
	gm_zero_engine_column(engine, own[MASTERS].object, offsetof(struct gm_zero_group, master));
	sharding->layout_unknown = engine->groups.count == 0;
	read_parameters(&stage3);
	if (!sharding->layout_unknown)
		read_partitions(engine, own[GRADIENTS].object);
	read_whole_gradients(parameters);
	for (size_t i = 0; i < engine->groups.count; i++) {
		struct gm_tensor master;
		if (gm_zero_engine_master(engine, (uint32_t)i, &master))
			gm_zero_engine_second_gradient(parameters, master.grad, 0);
	}
	gm_zero_engine_state(engine, own[INNER].object);
	read_gathered(parameters);
	gm_zero_pairs(reading, own[BUCKETS].object, see_bucket, parameters);
	gm_array_deinit(&engine->groups);
	gm_array_deinit(&engine->mine);
}
