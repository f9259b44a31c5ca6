#include "ask/zero/deepspeed.h"

#include <stddef.h>
#include <string.h>

#include "ask/zero/deepspeed_engine.h"

enum { GROUPS_MAX = 4096, PARTS_MAX = 1 << 16 };

/* --- groups: lists with an entry for each ----------------------------------------------------- */

struct column {
	struct gm_zero_engine *engine;
	size_t offset; /* of the member of struct gm_zero_group */
};

static bool see_cell(void *context, uint64_t item, uint64_t index)
{
	struct column *column = context;
	struct gm_zero_engine *engine = column->engine;
	if (index >= GROUPS_MAX)
		return false;
	if (index == engine->groups.count &&
	        !gm_array_push(&engine->groups, ((struct gm_zero_group){0}))) {
		engine->parameters->reading->no_memory = true;
		return false;
	}
	memcpy((char *)&engine->groups.items[index] + column->offset, &item, sizeof(item));
	return true;
}

void gm_zero_engine_column(struct gm_zero_engine *engine, uint64_t list, size_t offset)
{
	struct column column = {engine, offset};
	gm_zero_items(engine->parameters->reading, list, see_cell, &column);
}

static bool see_first_offset(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	if (index >= engine->groups.count)
		return false;
	struct gm_zero_group *group = &engine->groups.items[index];
	group->has_first_offset =
	        gm_zero_number(engine->parameters->reading, item, &group->first_offset);
	return true;
}

/* ---- who owns what ---- */

static bool see_part(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	struct gm_zero_sharding *sharding = engine->parameters->sharding;
	struct gm_tensor part;
	if (index >= PARTS_MAX)
		return false;
	if (index == 0 && gm_zero_tensor(engine->parameters->reading, item, &part))
		engine->group->part = part.numel;
	if (!sharding->has_world || sharding->world <= index)
		sharding->world = (uint32_t)index + 1;
	sharding->has_world = true;
	return true;
}

/* A rank whose part is only padding has no parameter that shows which rank it is. */
static bool see_first_of_mine(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	const struct gm_zero_group *group = engine->group;
	struct gm_zero_sharding *sharding = engine->parameters->sharding;
	struct gm_tensor tensor;
	if (gm_zero_tensor(engine->parameters->reading, item, &tensor) &&
	        tensor.storage == group->storage &&
	        tensor.storage_offset >= group->storage_offset && group->part) {
		uint64_t first = tensor.storage_offset - group->storage_offset;
		uint64_t rank = (first + group->first_offset) / group->part;
		sharding->has_rank = sharding->has_world && rank < sharding->world;
		sharding->rank = sharding->has_rank ? (uint32_t)rank : 0;
	}
	return false;
}

void gm_zero_engine_parts(struct gm_zero_engine *engine)
{
	struct gm_zero_reading *reading = engine->parameters->reading;
	struct gm_zero_sharding *sharding = engine->parameters->sharding;
	for (size_t i = 0; i < engine->groups.count; i++) {
		struct gm_zero_group *group = engine->group = &engine->groups.items[i];
		struct gm_tensor flat;
		gm_zero_items(reading, group->parts, see_part, engine);
		if (!gm_zero_tensor(reading, group->flat, &flat)) {
			sharding->unread++;
			continue;
		}
		group->flat_elements = flat.numel;
		group->storage = flat.storage;
		group->storage_offset = flat.storage_offset;
		if (!sharding->has_rank && group->has_first_offset)
			gm_zero_items(reading, group->mine, see_first_of_mine, engine);
	}
}

static uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* The part of a parameter that is this rank's */
static void find_owner(struct gm_zero_engine *engine, struct gm_zero_parameter *parameter,
        const struct gm_tensor *tensor)
{
	struct gm_zero_sharding *sharding = engine->parameters->sharding;
	struct gm_zero_group *group = engine->group;
	if (tensor->storage != group->storage || tensor->storage_offset < group->storage_offset ||
	        !group->part || !tensor->numel) {
		sharding->unread += tensor->numel != 0;
		return;
	}
	uint64_t first = tensor->storage_offset - group->storage_offset;
	uint64_t end = first + tensor->numel, owner = first / group->part;
	parameter->spread = owner != (end - 1) / group->part;
	if (!parameter->spread && owner < sharding->world)
		parameter->owner = (uint32_t)owner;
	uint64_t start = sharding->rank * group->part, stop = start + group->part;
	if (sharding->has_rank && first < stop && end > start)
		parameter->owned = least(end, stop) - (first > start ? first : start);
	group->owned += parameter->owned;
	group->elements += tensor->numel;
	group->element_size = parameter->element_size;
}

/* The flat tensors' padding, in the storages of the parameters */
static void count_padding(struct gm_zero_engine *engine)
{
	struct gm_zero_parameters *parameters = engine->parameters;
	for (size_t i = 0; i < engine->groups.count; i++) {
		const struct gm_zero_group *group = &engine->groups.items[i];
		if (!group->elements || group->flat_elements < group->elements)
			continue;
		uint64_t bytes = (group->flat_elements - group->elements) * group->element_size;
		parameters->ledger->claimed[GM_ZERO_PARAMETERS] += bytes;
		parameters->sharding->terms[GM_ZERO_PARAMETERS].differences[GM_ZERO_PADDING] +=
		        (int64_t)bytes;
	}
}

static bool see_parameter(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_engine *engine = context;
	struct gm_tensor tensor;
	struct gm_zero_parameter *parameter = gm_zero_parameter_add(engine->parameters, item,
	        (uint32_t)(engine->group - engine->groups.items), &tensor);
	if (parameter)
		find_owner(engine, parameter, &tensor);
	return !engine->parameters->reading->no_memory;
}

void gm_zero_engine_parameters(struct gm_zero_engine *engine)
{
	for (size_t i = 0; i < engine->groups.count; i++) {
		engine->group = &engine->groups.items[i];
		gm_zero_items(engine->parameters->reading, engine->group->parameters, see_parameter,
		        engine);
	}
	count_padding(engine);
}

void gm_zero_deepspeed(struct gm_zero_parameters *parameters, uint64_t object)
{
	enum { PARAMETERS, REORDERED, FLAT, PARTS, MINE, FIRST, MASTERS, STAGE, INNER, COUNT };
	struct gm_zero_reading *reading = parameters->reading;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_attribute own[COUNT] = {
	        [PARAMETERS] = {"bit16_groups", 0},
	        [REORDERED] = {"round_robin_bit16_groups", 0},
	        [FLAT] = {"bit16_groups_flat", 0},
	        [PARTS] = {"parallel_partitioned_bit16_groups", 0},
	        [MINE] = {"params_in_partition", 0},
	        [FIRST] = {"first_offset", 0},
	        [MASTERS] = {"single_partition_of_fp32_groups", 0},
	        [STAGE] = {"partition_gradients", 0},
	        [INNER] = {"optimizer", 0},
	};
	struct gm_zero_engine engine = {.parameters = parameters};
	uint32_t second = 0;
	gm_zero_attributes(reading, object, own, COUNT);
	gm_zero_number(reading, own[STAGE].object, &second);
	sharding->scheme = GM_ZERO_DEEPSPEED;
	sharding->stage = second ? 2 : 1;
	sharding->terms[GM_ZERO_GRADIENTS].partitioned = second != 0;
	sharding->terms[GM_ZERO_MASTERS].partitioned = true;
	sharding->terms[GM_ZERO_STATE].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, own[INNER].object);

	gm_zero_engine_column(&engine, own[FLAT].object, offsetof(struct gm_zero_group, flat));
	gm_zero_engine_column(&engine, own[own[REORDERED].object ? REORDERED : PARAMETERS].object,
	        offsetof(struct gm_zero_group, parameters));
	gm_zero_engine_column(&engine, own[PARTS].object, offsetof(struct gm_zero_group, parts));
	gm_zero_engine_column(&engine, own[MINE].object, offsetof(struct gm_zero_group, mine));
	gm_zero_engine_column(&engine, own[MASTERS].object, offsetof(struct gm_zero_group, master));
	gm_zero_items(reading, own[FIRST].object, see_first_offset, &engine);
	sharding->layout_unknown = engine.groups.count == 0;
	gm_zero_engine_parts(&engine);
	gm_zero_engine_parameters(&engine);
	gm_zero_engine_terms(&engine, object);
	gm_array_deinit(&engine.groups);
	gm_array_deinit(&engine.mine);
}
