#include "ask/zero/parameters.h"

#include <stdlib.h>
#include <string.h>

void gm_zero_parameters_deinit(struct gm_zero_parameters *parameters)
{
	gm_map_deinit(&parameters->objects);
	gm_map_deinit(&parameters->tensors);
}

struct gm_zero_parameter *gm_zero_parameter_of(
        struct gm_zero_parameters *parameters, uint64_t object)
{
	const uint64_t *number = gm_map_find(&parameters->objects, object);
	return number && *number ? &parameters->sharding->parameters[*number - 1] : NULL;
}

/* ---- groups ---- */

struct group_visit {
	struct gm_zero_parameters *parameters;
	uint32_t group;
	bool stateless;
};

static bool append(struct gm_zero_parameters *parameters, const struct gm_zero_parameter *parameter)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	uint64_t *by_object = gm_map_put(&parameters->objects, parameter->object, NULL);
	uint64_t *by_tensor = gm_map_put(&parameters->tensors, parameter->tensor, NULL);
	if (!by_object || !by_tensor ||
	        !(sharding->parameter_count < parameters->capacity ||
	                gm_array_grow((void **)&sharding->parameters, &parameters->capacity,
	                        sharding->parameter_count, 1, sizeof(*sharding->parameters))))
		return false;
	sharding->parameters[sharding->parameter_count++] = *parameter;
	*by_object = *by_tensor = sharding->parameter_count;
	return true;
}

struct gm_zero_parameter *gm_zero_parameter_put(struct gm_zero_parameters *parameters,
        uint64_t object, uint32_t group, const struct gm_tensor *whole,
        const struct gm_tensor *part)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	uint64_t bytes;
	struct gm_zero_parameter parameter = {
	        .object = object,
	        .tensor = whole->address,
	        .dtype = whole->dtype,
	        .dimensions = whole->dimensions,
	        .elements = whole->numel,
	        .element_size = whole->element_bits / 8,
	        .group = group,
	        .owner = GM_ZERO_NO_RANK,
	        .trainable = whole->requires_grad,
	        .split = part->address != whole->address,
	};
	memcpy(parameter.shape, whole->shape, sizeof(parameter.shape));
	if (!parameters->ledger->on_device && whole->device_type != GM_DEVICE_CPU)
		parameters->ledger->on_device = true;
	if (!gm_zero_name_of(parameters->names, object, &parameter.name) ||
	        !append(parameters, &parameter)) {
		free(parameter.name);
		parameters->reading->no_memory = true;
		return NULL;
	}
	gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_PARAMETERS, part, &bytes);
	return &sharding->parameters[sharding->parameter_count - 1];
}

struct gm_zero_parameter *gm_zero_parameter_add(struct gm_zero_parameters *parameters,
        uint64_t object, uint32_t group, struct gm_tensor *ret_tensor)
{
	struct gm_tensor whole, part;
	if (gm_zero_parameter_of(parameters, object))
		return NULL;
	if (!gm_zero_whole_tensor(parameters->reading, object, &whole) ||
	        !gm_zero_tensor(parameters->reading, object, &part)) {
		parameters->sharding->unread++;
		return NULL;
	}
	if (ret_tensor)
		*ret_tensor = part;
	return gm_zero_parameter_put(parameters, object, group, &whole, &part);
}

void gm_zero_rank(struct gm_zero_parameters *parameters, uint64_t rank_object,
        uint64_t world_object, bool first)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	uint32_t world = 0, rank = 0;
	bool known = gm_zero_number(parameters->reading, world_object, &world) && world > 0 &&
	             gm_zero_number(parameters->reading, rank_object, &rank) && rank < world;
	if (first) {
		sharding->world = world;
		sharding->rank = rank;
		sharding->has_world = sharding->has_rank = known;
	} else if (!known || sharding->world != world || sharding->rank != rank) {
		sharding->has_world = sharding->has_rank = false;
	}
}

static bool see_parameter(void *context, uint64_t item, uint64_t index)
{
	struct group_visit *visit = context;
	gm_zero_parameter_add(visit->parameters, item, visit->group, NULL);
	struct gm_zero_parameter *parameter = gm_zero_parameter_of(visit->parameters, item);
	if (parameter) {
		parameter->group = visit->group;
		parameter->state_known = visit->stateless;
	}
	return !visit->parameters->reading->no_memory;
}

/* SGD has no state without momentum, and then creates no entry (torch/optim/sgd.py). */
static bool is_stateless(const struct gm_zero_parameters *parameters, uint64_t momentum)
{
	double value;
	return parameters->sharding->optimizer &&
	       strcmp(parameters->sharding->optimizer, "SGD") == 0 && momentum &&
	       gm_python_number(parameters->reading->python, momentum, &value) && value == 0;
}

static bool see_group(void *context, uint64_t item, uint64_t index)
{
	struct group_visit *visit = context;
	struct gm_zero_attribute entries[] = {{"params", 0}, {"momentum", 0}};
	gm_zero_entries(visit->parameters->reading, item, entries, 2);
	visit->group = (uint32_t)index;
	visit->stateless = is_stateless(visit->parameters, entries[1].object);
	gm_zero_items(visit->parameters->reading, entries[0].object, see_parameter, visit);
	return true;
}

void gm_zero_parameters_of_groups(struct gm_zero_parameters *parameters, uint64_t groups)
{
	struct group_visit visit = {.parameters = parameters};
	gm_zero_items(parameters->reading, groups, see_group, &visit);
}

/* ---- gradients ---- */

void gm_zero_gradient(struct gm_zero_parameters *parameters, struct gm_zero_parameter *parameter,
        const struct gm_tensor *gradient, bool apart)
{
	uint64_t bytes = 0;
	if (apart && parameter->gradient_storage == gradient->storage)
		return;
	parameter->has_gradient = true;
	if (!gm_zero_ledger_add(
	            parameters->ledger, parameters->sharding, GM_ZERO_GRADIENTS, gradient, &bytes))
		return;
	if (!apart)
		parameter->gradient_storage = gradient->storage;
	parameter->gradient_elements += gradient->numel;
	parameter->gradient_bytes += bytes;
}

void gm_zero_gradients(struct gm_zero_parameters *parameters)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	for (size_t i = 0; i < sharding->parameter_count; i++) {
		struct gm_zero_parameter *parameter = &sharding->parameters[i];
		struct gm_tensor tensor, gradient;
		if (!gm_torch_tensor(parameters->reading->torch, parameter->tensor, &tensor) ||
		        !tensor.grad)
			continue;
		parameter->has_gradient = true;
		if (gm_torch_tensor(parameters->reading->torch, tensor.grad, &gradient) &&
		        gm_zero_plausible(&gradient) &&
		        (!parameter->split ||
		                gm_zero_tensor(parameters->reading, gradient.python, &gradient)))
			gm_zero_gradient(parameters, parameter, &gradient, false);
		else
			sharding->unread++;
	}
}

/* ---- state ---- */

struct state_visit {
	struct gm_zero_parameters *parameters;
	struct gm_zero_parameter *parameter; /* NULL: the object is not a tensor */
	bool again;
};

/* The count of steps has one element, and so may a parameter. */
static bool of_its_size(
        const struct gm_zero_parameter *parameter, const struct gm_tensor *tensor, const char *name)
{
	if (name && strcmp(name, "step") == 0)
		return false;
	if (parameter->split)
		return tensor->numel == parameter->owned + parameter->padding &&
		       tensor->dimensions > 0;
	return tensor->dimensions == parameter->dimensions &&
	       tensor->dimensions <= GM_TENSOR_MAX_DIMENSIONS &&
	       memcmp(tensor->shape, parameter->shape,
	               tensor->dimensions * sizeof(tensor->shape[0])) == 0;
}

bool gm_zero_state_tensor(struct gm_zero_parameters *parameters, uint64_t object,
        struct gm_tensor *ret_tensor, uint64_t *ret_bytes)
{
	*ret_bytes = 0;
	return gm_zero_tensor(parameters->reading, object, ret_tensor) &&
	       gm_zero_ledger_add(parameters->ledger, parameters->sharding, GM_ZERO_STATE,
	               ret_tensor, ret_bytes);
}

static bool see_value(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct state_visit *visit = context;
	struct gm_zero_parameters *parameters = visit->parameters;
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_parameter *parameter = visit->parameter;
	int64_t *differences = sharding->terms[GM_ZERO_STATE].differences;
	struct gm_tensor tensor;
	uint64_t bytes;
	if (!gm_zero_state_tensor(parameters, value, &tensor, &bytes))
		return true;
	if (visit->again) {
		differences[GM_ZERO_DUPLICATE] += (int64_t)bytes;
	} else if (!parameter || !(parameter->owned || parameter->split)) {
		differences[GM_ZERO_NOT_OWNED] += (int64_t)bytes;
	} else if (of_its_size(parameter, &tensor, name)) {
		parameter->state_bytes += bytes;
		parameter->state_tensors++;
	} else {
		parameter->per_tensor_bytes += bytes;
		differences[GM_ZERO_PER_TENSOR] += (int64_t)bytes;
	}
	return true;
}

/* Bytes of an element, without the padding */
static void find_state_size(
        struct gm_zero_parameters *parameters, struct gm_zero_parameter *parameter)
{
	uint64_t elements = parameter->owned + parameter->padding;
	if (!elements || parameter->state_bytes % elements)
		return;
	uint64_t size = parameter->state_bytes / elements;
	parameter->state_known = true;
	parameter->state_size = size;
	parameter->state_bytes = size * parameter->owned;
	parameters->sharding->terms[GM_ZERO_STATE].differences[GM_ZERO_PADDING] +=
	        (int64_t)(size * parameter->padding);
}

static bool see_state(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct state_visit *visit = context;
	visit->parameter = gm_zero_parameter_of(visit->parameters, key);
	if (visit->parameter && !visit->again)
		visit->parameter->has_state = true;
	gm_zero_pairs(visit->parameters->reading, value, see_value, visit);
	if (visit->parameter && !visit->again)
		find_state_size(visit->parameters, visit->parameter);
	return true;
}

void gm_zero_state(struct gm_zero_parameters *parameters, uint64_t state, bool again)
{
	struct state_visit visit = {parameters, NULL, again};
	gm_zero_pairs(parameters->reading, state, see_state, &visit);
}

/* ---- buffers ---- */

void gm_zero_buffer(struct gm_zero_parameters *parameters, enum gm_zero_bucket_kind kind,
        const struct gm_tensor *tensor, uint64_t count)
{
	struct gm_zero_sharding *sharding = parameters->sharding;
	struct gm_zero_bucket bucket = {
	        .kind = kind, .tensor = tensor->address, .parameters = count};
	struct gm_storage storage;
	uint64_t bytes = 0;
	if (!gm_torch_storage(parameters->reading->torch, tensor->storage, &storage)) {
		sharding->unread++;
		return;
	}
	if (!storage.size) /* it is released between two uses */
		return;
	const uint64_t *counted = gm_map_find(&parameters->ledger->storages, storage.address);
	bucket.bytes = storage.size;
	bucket.shared = counted && *counted != GM_ZERO_BUFFERS + 1;
	if (!bucket.shared) {
		gm_zero_ledger_add(parameters->ledger, sharding, GM_ZERO_BUFFERS, tensor, &bytes);
		sharding->terms[GM_ZERO_BUFFERS].differences[GM_ZERO_DUPLICATE] += (int64_t)bytes;
	}
	if (counted && !bucket.shared) /* another tensor in it was processed before */
		return;
	struct gm_zero_bucket *grown = realloc(
	        sharding->buckets, (sharding->bucket_count + 1) * sizeof(*sharding->buckets));
	if (!grown) {
		parameters->reading->no_memory = true;
		return;
	}
	sharding->buckets = grown;
	sharding->buckets[sharding->bucket_count++] = bucket;
}

bool gm_zero_buffer_of(
        struct gm_zero_parameters *parameters, enum gm_zero_bucket_kind kind, uint64_t object)
{
	struct gm_tensor tensor;
	if (!gm_zero_tensor(parameters->reading, object, &tensor))
		return false;
	gm_zero_buffer(parameters, kind, &tensor, 0);
	return true;
}
