#include "ask/zero/deepspeed_engine.h"

#include <string.h>

/* ---- gradients: of parameters, of parts of them, of this rank's copy ---- */

static bool see_mine(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	if (!gm_array_push(&engine->mine, item))
		engine->parameters->reading->no_memory = true;
	return !engine->parameters->reading->no_memory;
}

/* One for each parameter that this rank has a part of, and one for the padding */
static bool see_slice(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_term *term = &parameters->sharding->terms[GM_ZERO_GRADIENTS];
	struct gm_tensor slice;
	uint64_t bytes = 0;
	if (!gm_zero_tensor(parameters->reading, item, &slice))
		return true;
	struct gm_zero_parameter *parameter =
	        index < engine->mine.count
	                ? gm_zero_parameter_of(parameters, engine->mine.items[index])
	                : NULL;
	if (parameter)
		gm_zero_gradient(parameters, parameter, &slice, true);
	else if (gm_zero_ledger_add(parameters->ledger, parameters->sharding, GM_ZERO_GRADIENTS,
	                 &slice, &bytes))
		term->differences[GM_ZERO_PADDING] += (int64_t)bytes;
	return true;
}

static bool see_slices(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_zero_engine *engine = context;
	struct gm_zero_reading *reading = engine->parameters->reading;
	uint32_t number;
	if (!gm_zero_number(reading, key, &number) || number >= engine->groups.count)
		return true;
	engine->mine.count = 0;
	gm_zero_items(reading, engine->groups.items[number].mine, see_mine, engine);
	gm_zero_items(reading, value, see_slice, engine);
	return true;
}

/* A flat tensor of this rank's part: `owned` elements belong to parameters, the others are padding.
 * */
static void add_padding(const struct gm_zero_group *group, enum gm_zero_part part, uint64_t size,
        struct gm_zero_sharding *sharding)
{
	sharding->terms[part].differences[GM_ZERO_PADDING] +=
	        (int64_t)((group->part - group->owned) * size);
}

static void read_whole_gradients(struct gm_zero_engine *engine)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	gm_zero_gradients(parameters);
	for (size_t i = 0; i < parameters->sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &parameters->sharding->parameters[i];
		struct gm_zero_attribute more[] = {{"grad_accum", 0}};
		struct gm_tensor tensor;
		gm_zero_attributes(parameters->reading, parameter->object, more, 1);
		if (gm_zero_tensor(parameters->reading, more[0].object, &tensor))
			gm_zero_gradient(parameters, parameter, &tensor, false);
	}
}

void gm_zero_engine_second_gradient(
        struct gm_zero_parameters *parameters, uint64_t gradient, uint64_t counted)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_tensor tensor;
	uint64_t bytes;
	if (!gradient)
		return;
	if (!gm_torch_tensor(parameters->reading->torch, gradient, &tensor) ||
	        !gm_zero_plausible(&tensor))
		sharding->unread++;
	else if (!(counted && tensor.storage == counted) &&
	         gm_zero_ledger_add(
	                 parameters->ledger, sharding, GM_ZERO_GRADIENTS, &tensor, &bytes))
		sharding->terms[GM_ZERO_GRADIENTS].differences[GM_ZERO_DUPLICATE] += (int64_t)bytes;
}

/* ---- this rank's copy ---- */

bool gm_zero_engine_master(
        struct gm_zero_engine *engine, uint32_t number, struct gm_tensor *ret_master)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	const struct gm_zero_group *group = &engine->groups.items[number];
	struct gm_tensor master;
	uint64_t bytes;
	if (!gm_zero_tensor(parameters->reading, group->master, &master) ||
	        master.numel != group->part) {
		sharding->unread++;
		return false;
	}
	*ret_master = master;
	gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_MASTERS, &master, &bytes);
	add_padding(group, GM_ZERO_MASTERS, master.element_bits / 8, sharding);
	for (size_t i = 0; i < sharding->parameter_count; i++)
		if (sharding->parameters[i].group == number)
			sharding->parameters[i].master_size = master.element_bits / 8;
	return true;
}

/* Its gradient is that of the parameters in this rank's part. */
static void read_master(struct gm_zero_engine *engine, uint32_t number)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	const struct gm_zero_group *group = &engine->groups.items[number];
	struct gm_tensor master, gradient;
	uint64_t bytes;
	if (!gm_zero_engine_master(engine, number, &master) || !master.grad ||
	        !gm_torch_tensor(parameters->reading->torch, master.grad, &gradient) ||
	        gradient.numel != group->part ||
	        !gm_zero_ledger_add(
	                parameters->ledger, sharding, GM_ZERO_GRADIENTS, &gradient, &bytes))
		return;
	uint64_t size = gradient.element_bits / 8;
	add_padding(group, GM_ZERO_GRADIENTS, size, sharding);
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->group != number)
			continue;
		parameter->has_gradient |= parameter->owned != 0;
		parameter->gradient_elements += parameter->owned;
		parameter->gradient_bytes += parameter->owned * size;
	}
}

/* --- state of a copy -------------------------------------------------------------------------- */

static bool see_value(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_zero_engine *engine = context;
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	int64_t *differences = sharding->terms[GM_ZERO_STATE].differences;
	struct gm_tensor tensor;
	uint64_t bytes;
	if (!gm_zero_state_tensor(parameters, value, &tensor, &bytes))
		return true;
	if (!engine->group)
		differences[GM_ZERO_NOT_OWNED] += (int64_t)bytes;
	else if (tensor.numel == engine->group->part && !(name && strcmp(name, "step") == 0))
		engine->group->state_bytes += bytes;
	else
		differences[GM_ZERO_PER_TENSOR] += (int64_t)bytes;
	return true;
}

static bool see_state(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_zero_engine *engine = context;
	engine->group = NULL;
	for (size_t i = 0; i < engine->groups.count; i++)
		if (engine->groups.items[i].master == key)
			engine->group = &engine->groups.items[i];
	if (engine->group)
		engine->group->has_state = true;
	gm_zero_pairs(engine->parameters->reading, value, see_value, engine);
	return true;
}

/* Each element of the copy has as many bytes. */
static void share_state(struct gm_zero_engine *engine)
{
	struct gm_zero_sharding *sharding = engine->parameters->sharding;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->group >= engine->groups.count)
			continue;
		const struct gm_zero_group *group = &engine->groups.items[parameter->group];
		if (!group->has_state || !group->part || group->state_bytes % group->part)
			continue;
		parameter->has_state = parameter->state_known = true;
		parameter->state_size = group->state_bytes / group->part;
		parameter->state_bytes = parameter->state_size * parameter->owned;
	}
	for (size_t i = 0; i < engine->groups.count; i++) {
		const struct gm_zero_group *group = &engine->groups.items[i];
		if (group->has_state && group->part)
			add_padding(
			        group, GM_ZERO_STATE, group->state_bytes / group->part, sharding);
	}
}

void gm_zero_engine_state(struct gm_zero_engine *engine, uint64_t optimizer)
{
	struct gm_zero_attribute own[] = {{"state", 0}};
	gm_zero_attributes(engine->parameters->reading, optimizer, own, 1);
	gm_zero_pairs(engine->parameters->reading, own[0].object, see_state, engine);
	share_state(engine);
}

/* ---- buffers ---- */

static bool see_buffer(void *context, uint64_t item, uint64_t index)
{
	gm_zero_buffer_of(context, GM_ZERO_BUCKET_GRADIENTS, item);
	return true;
}

static bool see_bucket(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_zero_parameters *parameters = context;
	struct gm_zero_attribute buffer[] = {{"buffer", 0}};
	gm_zero_attributes(parameters->reading, value, buffer, 1);
	gm_zero_items(parameters->reading, buffer[0].object, see_buffer, parameters);
	return true;
}

static bool see_offload(void *context, uint64_t item, uint64_t index)
{
	gm_zero_buffer_of(context, GM_ZERO_BUCKET_OFFLOAD, item);
	return true;
}

void gm_zero_engine_terms(struct gm_zero_engine *engine, uint64_t object)
{
	enum { AVERAGED, ALL, INNER, BUCKETS, TO_HOST, FROM_HOST, HOST_COPY, COUNT };
	struct gm_zero_parameters *parameters = engine->parameters;
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_attribute own[COUNT] = {
	        [AVERAGED] = {"averaged_gradients", 0},
	        [ALL] = {"all_grad_tensors", 0},
	        [INNER] = {"optimizer", 0},
	        [BUCKETS] = {"ipg_buckets", 0},
	        [TO_HOST] = {"temp_grad_buffer_for_cpu_offload", 0},
	        [FROM_HOST] = {"temp_grad_buffer_for_gpu_offload", 0},
	        [HOST_COPY] = {"param_buffer_of_bit16_for_cpu_offload_groups", 0},
	};
	gm_zero_attributes(reading, object, own, COUNT);
	read_whole_gradients(engine);
	gm_zero_pairs(reading, own[AVERAGED].object, see_slices, engine);
	gm_zero_pairs(reading, own[ALL].object, see_slices, engine);
	for (size_t i = 0; i < engine->groups.count; i++)
		read_master(engine, (uint32_t)i);
	gm_zero_engine_state(engine, own[INNER].object);
	gm_zero_pairs(reading, own[BUCKETS].object, see_bucket, parameters);
	see_offload(parameters, own[TO_HOST].object, 0);
	see_offload(parameters, own[FROM_HOST].object, 0);
	gm_zero_items(reading, own[HOST_COPY].object, see_offload, parameters);
}
