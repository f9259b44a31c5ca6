#include "ask/zero/deepspeed.h"

#include <stddef.h>
#include <string.h>

enum { GROUPS_MAX = 4096, PARTS_MAX = 1 << 16 };

/* A group of parameters */
struct group {
	uint64_t parameters, flat, parts, mine, master; /* Python's objects */
	uint32_t first_offset; /* of this rank's part in its first parameter */
	bool has_first_offset;
	uint64_t part;                    /* elements of a rank's part */
	uint64_t owned;                   /* those of them that are parameters' */
	uint64_t flat_elements, elements; /* of the flat tensor; of its parameters */
	uint64_t storage, storage_offset; /* of the flat tensor */
	uint64_t element_size, state_bytes;
	bool has_state;
};

struct deepspeed {
	struct gm_zero_parameters *parameters;
	GM_ARRAY(struct group) groups;
	struct group *group;     /* the one that is read */
	GM_ARRAY(uint64_t) mine; /* its parameters that this rank has a part of */
};

/* ---- groups: lists with an entry for each ---- */

struct column {
	struct deepspeed *deepspeed;
	size_t offset; /* of the member of struct group */
};

static bool see_cell(void *context, uint64_t item, uint64_t index)
{
	struct column *column = context;
	struct deepspeed *deepspeed = column->deepspeed;
	if (index >= GROUPS_MAX)
		return false;
	if (index == deepspeed->groups.count &&
	        !gm_array_push(&deepspeed->groups, ((struct group){0}))) {
		deepspeed->parameters->reading->no_memory = true;
		return false;
	}
	memcpy((char *)&deepspeed->groups.items[index] + column->offset, &item, sizeof(item));
	return true;
}

static void read_column(struct deepspeed *deepspeed, uint64_t list, size_t offset)
{
	struct column column = {deepspeed, offset};
	gm_zero_items(deepspeed->parameters->reading, list, see_cell, &column);
}

static bool see_first_offset(void *context, uint64_t item, uint64_t index)
{
	struct deepspeed *deepspeed = context;
	if (index >= deepspeed->groups.count)
		return false;
	struct group *group = &deepspeed->groups.items[index];
	group->has_first_offset =
	        gm_zero_number(deepspeed->parameters->reading, item, &group->first_offset);
	return true;
}

/* ---- who owns what ---- */

static bool see_part(void *context, uint64_t item, uint64_t index)
{
	struct deepspeed *deepspeed = context;
	struct gm_zero_sharding *sharding = deepspeed->parameters->sharding;
	struct gm_tensor part;
	if (index >= PARTS_MAX)
		return false;
	if (index == 0 && gm_zero_tensor(deepspeed->parameters->reading, item, &part))
		deepspeed->group->part = part.numel;
	if (!sharding->has_world || sharding->world <= index)
		sharding->world = (uint32_t)index + 1;
	sharding->has_world = true;
	return true;
}

/* A rank whose part is padding alone has no parameter that tells which rank it is. */
static bool see_first_of_mine(void *context, uint64_t item, uint64_t index)
{
	struct deepspeed *deepspeed = context;
	const struct group *group = deepspeed->group;
	struct gm_zero_sharding *sharding = deepspeed->parameters->sharding;
	struct gm_tensor tensor;
	if (gm_zero_tensor(deepspeed->parameters->reading, item, &tensor) &&
	        tensor.storage == group->storage &&
	        tensor.storage_offset >= group->storage_offset && group->part) {
		uint64_t first = tensor.storage_offset - group->storage_offset;
		uint64_t rank = (first + group->first_offset) / group->part;
		sharding->has_rank = sharding->has_world && rank < sharding->world;
		sharding->rank = sharding->has_rank ? (uint32_t)rank : 0;
	}
	return false;
}

static void read_parts(struct deepspeed *deepspeed)
{
	struct gm_zero_reading *reading = deepspeed->parameters->reading;
	struct gm_zero_sharding *sharding = deepspeed->parameters->sharding;
	for (size_t i = 0; i < deepspeed->groups.count; i++) {
		struct group *group = deepspeed->group = &deepspeed->groups.items[i];
		struct gm_tensor flat;
		gm_zero_items(reading, group->parts, see_part, deepspeed);
		if (!gm_zero_tensor(reading, group->flat, &flat)) {
			sharding->unread++;
			continue;
		}
		group->flat_elements = flat.numel;
		group->storage = flat.storage;
		group->storage_offset = flat.storage_offset;
		if (!sharding->has_rank && group->has_first_offset)
			gm_zero_items(reading, group->mine, see_first_of_mine, deepspeed);
	}
}

static uint64_t least(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* What of a parameter lies in this rank's part */
static void find_owner(struct deepspeed *deepspeed, struct gm_zero_parameter *parameter,
        const struct gm_tensor *tensor)
{
	struct gm_zero_sharding *sharding = deepspeed->parameters->sharding;
	struct group *group = deepspeed->group;
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
static void count_padding(struct deepspeed *deepspeed)
{
	struct gm_zero_parameters *parameters = deepspeed->parameters;
	for (size_t i = 0; i < deepspeed->groups.count; i++) {
		const struct group *group = &deepspeed->groups.items[i];
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
	struct deepspeed *deepspeed = context;
	struct gm_tensor tensor;
	struct gm_zero_parameter *parameter = gm_zero_parameter_add(deepspeed->parameters, item,
	        (uint32_t)(deepspeed->group - deepspeed->groups.items), &tensor);
	if (parameter)
		find_owner(deepspeed, parameter, &tensor);
	return !deepspeed->parameters->reading->no_memory;
}

/* ---- gradients: of parameters, of parts of them, of this rank's copy ---- */

static bool see_mine(void *context, uint64_t item, uint64_t index)
{
	struct deepspeed *deepspeed = context;
	if (!gm_array_push(&deepspeed->mine, item))
		deepspeed->parameters->reading->no_memory = true;
	return !deepspeed->parameters->reading->no_memory;
}

/* One for each parameter that this rank has a part of, and one for the padding */
static bool see_slice(void *context, uint64_t item, uint64_t index)
{
	struct deepspeed *deepspeed = context;
	struct gm_zero_parameters *parameters = deepspeed->parameters;
	struct gm_zero_term *term = &parameters->sharding->terms[GM_ZERO_GRADIENTS];
	struct gm_tensor slice;
	uint64_t bytes = 0;
	if (!gm_zero_tensor(parameters->reading, item, &slice))
		return true;
	struct gm_zero_parameter *parameter =
	        index < deepspeed->mine.count
	                ? gm_zero_parameter_of(parameters, deepspeed->mine.items[index])
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
	struct deepspeed *deepspeed = context;
	struct gm_zero_reading *reading = deepspeed->parameters->reading;
	uint32_t number;
	if (!gm_zero_number(reading, key, &number) || number >= deepspeed->groups.count)
		return true;
	deepspeed->mine.count = 0;
	gm_zero_items(reading, deepspeed->groups.items[number].mine, see_mine, deepspeed);
	gm_zero_items(reading, value, see_slice, deepspeed);
	return true;
}

/* What a flat tensor of this rank's part has: `owned` elements are parameters', the others padding.
 */
static void add_padding(const struct group *group, enum gm_zero_part part, uint64_t size,
        struct gm_zero_sharding *sharding)
{
	sharding->terms[part].differences[GM_ZERO_PADDING] +=
	        (int64_t)((group->part - group->owned) * size);
}

static void read_whole_gradients(struct deepspeed *deepspeed)
{
	struct gm_zero_parameters *parameters = deepspeed->parameters;
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

/* ---- this rank's copy ---- */

static void read_master(struct deepspeed *deepspeed, uint32_t number)
{
	struct gm_zero_parameters *parameters = deepspeed->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct group *group = &deepspeed->groups.items[number];
	struct gm_tensor master, gradient;
	uint64_t bytes = 0;
	if (!gm_zero_tensor(parameters->reading, group->master, &master) ||
	        master.numel != group->part) {
		sharding->unread++;
		return;
	}
	uint64_t size = master.element_bits / 8;
	bool has_gradient = master.grad &&
	                    gm_torch_tensor(parameters->reading->torch, master.grad, &gradient) &&
	                    gradient.numel == group->part &&
	                    gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_GRADIENTS,
	                            &gradient, &bytes);
	gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_MASTERS, &master, &bytes);
	add_padding(group, GM_ZERO_MASTERS, size, sharding);
	if (has_gradient)
		add_padding(group, GM_ZERO_GRADIENTS, gradient.element_bits / 8, sharding);
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		if (parameter->group != number)
			continue;
		parameter->master_size = size;
		if (!has_gradient)
			continue;
		parameter->has_gradient |= parameter->owned != 0;
		parameter->gradient_elements += parameter->owned;
		parameter->gradient_bytes += parameter->owned * (gradient.element_bits / 8);
	}
}

/* ---- state, of a copy ---- */

static bool see_value(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct deepspeed *deepspeed = context;
	struct gm_zero_parameters *parameters = deepspeed->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	int64_t *differences = sharding->terms[GM_ZERO_STATE].differences;
	struct gm_tensor tensor;
	uint64_t bytes = 0;
	if (!gm_zero_tensor(parameters->reading, value, &tensor) ||
	        !gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_STATE, &tensor, &bytes))
		return true;
	if (!deepspeed->group)
		differences[GM_ZERO_NOT_OWNED] += (int64_t)bytes;
	else if (tensor.numel == deepspeed->group->part && !(name && strcmp(name, "step") == 0))
		deepspeed->group->state_bytes += bytes;
	else
		differences[GM_ZERO_PER_TENSOR] += (int64_t)bytes;
	return true;
}

static bool see_state(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct deepspeed *deepspeed = context;
	deepspeed->group = NULL;
	for (size_t i = 0; i < deepspeed->groups.count; i++)
		if (deepspeed->groups.items[i].master == key)
			deepspeed->group = &deepspeed->groups.items[i];
	if (deepspeed->group)
		deepspeed->group->has_state = true;
	gm_zero_pairs(deepspeed->parameters->reading, value, see_value, deepspeed);
	return true;
}

/* Each element of the copy has the same. */
static void share_state(struct deepspeed *deepspeed)
{
	struct gm_zero_sharding *sharding = deepspeed->parameters->sharding;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		const struct group *group = &deepspeed->groups.items[parameter->group];
		if (!group->has_state || !group->part || group->state_bytes % group->part)
			continue;
		parameter->has_state = parameter->state_known = true;
		parameter->state_size = group->state_bytes / group->part;
		parameter->state_bytes = parameter->state_size * parameter->owned;
	}
	for (size_t i = 0; i < deepspeed->groups.count; i++) {
		const struct group *group = &deepspeed->groups.items[i];
		if (group->has_state && group->part)
			add_padding(
			        group, GM_ZERO_STATE, group->state_bytes / group->part, sharding);
	}
}

/* ---- buffers ---- */

static bool see_buffer(void *context, uint64_t item, uint64_t index)
{
	struct gm_zero_parameters *parameters = context;
	struct gm_tensor tensor;
	if (gm_zero_tensor(parameters->reading, item, &tensor))
		gm_zero_buffer(parameters, GM_ZERO_BUCKET_GRADIENTS, &tensor, 0);
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
	struct gm_zero_parameters *parameters = context;
	struct gm_tensor tensor;
	if (gm_zero_tensor(parameters->reading, item, &tensor))
		gm_zero_buffer(parameters, GM_ZERO_BUCKET_OFFLOAD, &tensor, 0);
	return true;
}

void gm_zero_deepspeed(struct gm_zero_parameters *parameters, uint64_t object)
{
	enum {
		PARAMETERS,
		REORDERED,
		FLAT,
		PARTS,
		MINE,
		FIRST,
		MASTERS,
		STAGE,
		INNER,
		AVERAGED,
		ALL,
		BUCKETS,
		TO_HOST,
		FROM_HOST,
		HOST_COPY,
		COUNT
	};
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
	        [AVERAGED] = {"averaged_gradients", 0},
	        [ALL] = {"all_grad_tensors", 0},
	        [BUCKETS] = {"ipg_buckets", 0},
	        [TO_HOST] = {"temp_grad_buffer_for_cpu_offload", 0},
	        [FROM_HOST] = {"temp_grad_buffer_for_gpu_offload", 0},
	        [HOST_COPY] = {"param_buffer_of_bit16_for_cpu_offload_groups", 0},
	};
	struct gm_zero_attribute inner[] = {{"state", 0}};
	struct deepspeed deepspeed = {.parameters = parameters};
	uint32_t second = 0;
	gm_zero_attributes(reading, object, own, COUNT);
	gm_zero_attributes(reading, own[INNER].object, inner, 1);
	gm_zero_number(reading, own[STAGE].object, &second);
	sharding->scheme = GM_ZERO_DEEPSPEED;
	sharding->stage = second ? 2 : 1;
	sharding->terms[GM_ZERO_GRADIENTS].partitioned = second != 0;
	sharding->terms[GM_ZERO_MASTERS].partitioned = true;
	sharding->terms[GM_ZERO_STATE].partitioned = true;
	sharding->optimizer = gm_zero_class(reading, own[INNER].object);

	read_column(&deepspeed, own[FLAT].object, offsetof(struct group, flat));
	read_column(&deepspeed, own[own[REORDERED].object ? REORDERED : PARAMETERS].object,
	        offsetof(struct group, parameters));
	read_column(&deepspeed, own[PARTS].object, offsetof(struct group, parts));
	read_column(&deepspeed, own[MINE].object, offsetof(struct group, mine));
	read_column(&deepspeed, own[MASTERS].object, offsetof(struct group, master));
	gm_zero_items(reading, own[FIRST].object, see_first_offset, &deepspeed);
	sharding->layout_unknown = deepspeed.groups.count == 0;
	read_parts(&deepspeed);
	for (size_t i = 0; i < deepspeed.groups.count; i++) {
		deepspeed.group = &deepspeed.groups.items[i];
		gm_zero_items(reading, deepspeed.group->parameters, see_parameter, &deepspeed);
	}
	count_padding(&deepspeed);
	read_whole_gradients(&deepspeed);
	gm_zero_pairs(reading, own[AVERAGED].object, see_slices, &deepspeed);
	gm_zero_pairs(reading, own[ALL].object, see_slices, &deepspeed);
	for (size_t i = 0; i < deepspeed.groups.count; i++)
		read_master(&deepspeed, (uint32_t)i);
	gm_zero_pairs(reading, inner[0].object, see_state, &deepspeed);
	share_state(&deepspeed);
	gm_zero_pairs(reading, own[BUCKETS].object, see_bucket, parameters);
	see_offload(parameters, own[TO_HOST].object, 0);
	see_offload(parameters, own[FROM_HOST].object, 0);
	gm_zero_items(reading, own[HOST_COPY].object, see_offload, parameters);
	gm_array_deinit(&deepspeed.groups);
	gm_array_deinit(&deepspeed.mine);
}
