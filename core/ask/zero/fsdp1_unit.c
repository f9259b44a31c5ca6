#include "ask/zero/fsdp1_unit.h"

#include <stddef.h>
#include <string.h>

/* ---- lists with an entry for each original ---- */

struct column {
	struct gm_zero_reading *reading;
	struct gm_zero_unit *unit;
	size_t offset; /* of the member of struct gm_zero_original */
};

static bool see_cell(void *context, uint64_t item, uint64_t index)
{
	struct column *column = context;
	struct gm_zero_unit *unit = column->unit;
	if (index == unit->originals.count &&
	        !gm_array_push(&unit->originals, ((struct gm_zero_original){0}))) {
		column->reading->no_memory = true;
		return false;
	}
	memcpy((char *)&unit->originals.items[index] + column->offset, &item, sizeof(item));
	return true;
}

static void read_column(
        struct gm_zero_reading *reading, struct gm_zero_unit *unit, uint64_t list, size_t offset)
{
	struct column column = {reading, unit, offset};
	gm_zero_items(reading, list, see_cell, &column);
}

/* --- which part of an original is this rank's ------------------------------------------------- */

struct part_visit {
	struct gm_zero_reading *reading;
	struct gm_zero_original *original;
};

/* A _ShardParamInfo: in_shard, offset_in_shard, numel_in_shard and others; the latter are None if
 * in_shard is false */
static bool see_part(void *context, uint64_t item, uint64_t index)
{
	struct part_visit *visit = context;
	double number;
	if (index == 2 && gm_python_number(visit->reading->python, item, &number) && number > 0 &&
	        number <= (double)visit->original->elements)
		visit->original->owned = (uint64_t)number;
	return index < 2;
}

static void read_parts(struct gm_zero_reading *reading, struct gm_zero_unit *unit)
{
	for (size_t i = 0; i < unit->originals.count; i++) {
		struct part_visit visit = {reading, &unit->originals.items[i]};
		struct gm_tensor tensor;
		if (!gm_zero_shape(reading, visit.original->shape, &tensor))
			continue;
		visit.original->elements = tensor.numel;
		gm_zero_items(reading, visit.original->part, see_part, &visit);
	}
}

/* --- where the originals begin: there may be padding between them, for alignment -------------- */

struct shard {
	uint64_t size, padding;
};

struct shards_visit {
	struct gm_zero_reading *reading;
	GM_ARRAY(struct shard) shards;
};

static bool see_size(void *context, uint64_t item, uint64_t index)
{
	struct shards_visit *visit = context;
	double size;
	struct shard shard = {0};
	if (gm_python_number(visit->reading->python, item, &size) && size >= 0 && size < 1e13)
		shard.size = (uint64_t)size;
	if (!gm_array_push(&visit->shards, shard))
		visit->reading->no_memory = true;
	return !visit->reading->no_memory;
}

static bool see_mask(void *context, uint64_t item, uint64_t index)
{
	struct shards_visit *visit = context;
	uint32_t is_padding = 0;
	if (index >= visit->shards.count)
		return false;
	gm_zero_number(visit->reading, item, &is_padding);
	visit->shards.items[index].padding = is_padding;
	return true;
}

static void find_starts(
        struct gm_zero_reading *reading, struct gm_zero_unit *unit, uint64_t sizes, uint64_t mask)
{
	struct shards_visit visit = {.reading = reading};
	uint64_t start = 0;
	size_t k = 0;
	gm_zero_items(reading, sizes, see_size, &visit);
	gm_zero_items(reading, mask, see_mask, &visit);
	for (size_t i = 0; i < visit.shards.count && k < unit->originals.count; i++) {
		if (!visit.shards.items[i].padding)
			unit->originals.items[k++].start = start;
		start += visit.shards.items[i].size;
	}
	gm_array_deinit(&visit.shards);
}

/* ---- all of it ---- */

bool gm_zero_unit_read(
        struct gm_zero_reading *reading, uint64_t handle, struct gm_zero_unit *ret_unit)
{
	enum { FLAT, RANK, WORLD, STRATEGY, MODULE, OWN_COUNT };
	enum {
		SHARD,
		OBJECTS,
		SHAPES,
		PARTS,
		NAMES,
		SIZES,
		MASK,
		GATHERED,
		WHOLE,
		LOW,
		SAVED,
		HOST,
		COUNT
	};
	struct gm_zero_attribute own[OWN_COUNT] = {
	        [FLAT] = {"flat_param", 0},
	        [RANK] = {"rank", 0},
	        [WORLD] = {"world_size", 0},
	        [STRATEGY] = {"_sharding_strategy", 0},
	        [MODULE] = {"_fully_sharded_module", 0},
	};
	struct gm_zero_attribute flat[COUNT] = {
	        [SHARD] = {"_local_shard", 0},
	        [OBJECTS] = {"_params", 0},
	        [SHAPES] = {"_shapes", 0},
	        [PARTS] = {"_shard_param_infos", 0},
	        [NAMES] = {"_fqns", 0},
	        [SIZES] = {"_numels_with_padding", 0},
	        [MASK] = {"_is_padding_mask", 0},
	        [GATHERED] = {"_full_param_padded", 0},
	        [WHOLE] = {"_full_prec_full_param_padded", 0},
	        [LOW] = {"_mp_shard", 0},
	        [SAVED] = {"_saved_grad_shard", 0},
	        [HOST] = {"_cpu_grad", 0},
	};
	gm_zero_attributes(reading, handle, own, OWN_COUNT);
	gm_zero_attributes(reading, own[FLAT].object, flat, COUNT);
	*ret_unit = (struct gm_zero_unit){
	        .flat = own[FLAT].object,
	        /* the flat parameter itself is the part before the first forward */
	        .shard = flat[SHARD].object ? flat[SHARD].object : own[FLAT].object,
	        .rank = own[RANK].object,
	        .world = own[WORLD].object,
	        .strategy = own[STRATEGY].object,
	        .module = own[MODULE].object,
	        .gathered = flat[GATHERED].object,
	        .gathered_whole = flat[WHOLE].object,
	        .low = flat[LOW].object,
	        .saved_gradient = flat[SAVED].object,
	        .host_gradient = flat[HOST].object,
	};
	read_column(
	        reading, ret_unit, flat[SHAPES].object, offsetof(struct gm_zero_original, shape));
	size_t count = ret_unit->originals.count;
	read_column(reading, ret_unit, flat[PARTS].object, offsetof(struct gm_zero_original, part));
	read_column(reading, ret_unit, flat[NAMES].object, offsetof(struct gm_zero_original, name));
	read_column(
	        reading, ret_unit, flat[OBJECTS].object, offsetof(struct gm_zero_original, object));
	ret_unit->originals.count = count;
	read_parts(reading, ret_unit);
	find_starts(reading, ret_unit, flat[SIZES].object, flat[MASK].object);
	return !reading->no_memory;
}

void gm_zero_unit_deinit(struct gm_zero_unit *unit)
{
	gm_array_deinit(&unit->originals);
}

void gm_zero_unit_objects(
        struct gm_zero_reading *reading, uint64_t handle, gm_zero_visit visit, void *context)
{
	struct gm_zero_attribute own[] = {{"flat_param", 0}}, originals[] = {{"_params", 0}};
	gm_zero_attributes(reading, handle, own, 1);
	gm_zero_attributes(reading, own[0].object, originals, 1);
	if (own[0].object)
		visit(context, own[0].object, 0);
	gm_zero_items(reading, originals[0].object, visit, context);
}
