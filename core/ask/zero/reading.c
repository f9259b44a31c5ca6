#include "ask/zero/reading.h"

#include <stdlib.h>
#include <string.h>

/* More than a sharded model of tens of terabytes has */
static const uint64_t MOST_ELEMENTS = UINT64_C(1) << 44;

struct attributes_visit {
	struct gm_zero_reading *reading;
	struct gm_zero_attribute *attributes;
	size_t count;
	bool inner;
};

static bool see_attribute(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct attributes_visit *visit = context;
	if (!name)
		return true;
	if (kind == GM_EDGE_OTHER && strcmp(name, "__dict__") == 0 && !visit->inner) {
		visit->inner = true;
		gm_python_references(visit->reading->python, target, see_attribute, visit);
		visit->inner = false;
	}
	if (kind != GM_EDGE_ATTRIBUTE && kind != GM_EDGE_KEY)
		return true;
	for (size_t i = 0; i < visit->count; i++)
		if (strcmp(name, visit->attributes[i].name) == 0)
			visit->attributes[i].object = target;
	return true;
}

void gm_zero_attributes(struct gm_zero_reading *reading, uint64_t object,
        struct gm_zero_attribute *attributes, size_t count)
{
	struct attributes_visit visit = {reading, attributes, count, false};
	if (object)
		gm_python_references(reading->python, object, see_attribute, &visit);
}

void gm_zero_entries(struct gm_zero_reading *reading, uint64_t dict,
        struct gm_zero_attribute *attributes, size_t count)
{
	struct attributes_visit visit = {reading, attributes, count, true};
	if (dict)
		gm_python_references(reading->python, dict, see_attribute, &visit);
}

struct items_visit {
	gm_zero_visit visit;
	void *context;
	uint64_t count;
};

static bool see_item(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct items_visit *items = context;
	if (kind != GM_EDGE_ITEM)
		return true;
	return items->visit(items->context, target, items->count++) &&
	       items->count < GM_ZERO_OBJECTS_MAX;
}

void gm_zero_items(
        struct gm_zero_reading *reading, uint64_t list, gm_zero_visit visit, void *context)
{
	struct items_visit items = {visit, context, 0};
	if (list)
		gm_python_references(reading->python, list, see_item, &items);
}

struct pairs_visit {
	gm_zero_visit_pair visit;
	void *context;
	uint64_t key, count;
};

/* In a dict, the visitor reports each key before its value. */
static bool see_pair(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct pairs_visit *pairs = context;
	if (kind == GM_EDGE_DICT_KEY)
		pairs->key = target;
	if (kind != GM_EDGE_KEY)
		return true;
	uint64_t key = pairs->key;
	pairs->key = 0;
	return pairs->visit(pairs->context, key, target, name) &&
	       ++pairs->count < GM_ZERO_OBJECTS_MAX;
}

void gm_zero_pairs(
        struct gm_zero_reading *reading, uint64_t dict, gm_zero_visit_pair visit, void *context)
{
	struct pairs_visit pairs = {visit, context, 0, 0};
	if (dict)
		gm_python_references(reading->python, dict, see_pair, &pairs);
}

bool gm_zero_number(struct gm_zero_reading *reading, uint64_t object, uint32_t *ret_number)
{
	double value;
	if (!object || !gm_python_number(reading->python, object, &value) || value < 0 ||
	        value >= GM_ZERO_NO_RANK || value != (double)(uint32_t)value)
		return false;
	*ret_number = (uint32_t)value;
	return true;
}

struct shape_visit {
	struct gm_zero_reading *reading;
	struct gm_tensor *tensor;
	bool wrong;
};

static bool see_dimension(void *context, uint64_t item, uint64_t index)
{
	struct shape_visit *visit = context;
	struct gm_tensor *tensor = visit->tensor;
	double size;
	visit->wrong = !gm_python_number(visit->reading->python, item, &size) || size < 0 ||
	               size > (double)MOST_ELEMENTS || tensor->dimensions == UINT8_MAX ||
	               (size > 0 && tensor->numel > MOST_ELEMENTS / (uint64_t)size);
	if (visit->wrong)
		return false;
	if (tensor->dimensions < GM_TENSOR_MAX_DIMENSIONS)
		tensor->shape[tensor->dimensions] = (int64_t)size;
	tensor->dimensions++;
	tensor->numel *= (uint64_t)size;
	return true;
}

bool gm_zero_shape(struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *tensor)
{
	struct shape_visit visit = {reading, tensor, false};
	if (!object || !gm_python_is_instance(reading->python, object, "tuple"))
		return false;
	tensor->dimensions = 0;
	tensor->numel = 1;
	memset(tensor->shape, 0, sizeof(tensor->shape));
	gm_zero_items(reading, object, see_dimension, &visit);
	return !visit.wrong;
}

bool gm_zero_plausible(const struct gm_tensor *tensor)
{
	return tensor->numel <= MOST_ELEMENTS;
}

bool gm_zero_whole_tensor(
        struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *ret_tensor)
{
	struct gm_tensor tensor;
	uint64_t address = object ? gm_torch_unwrap(reading->torch, object) : 0;
	if (!address || !gm_torch_tensor(reading->torch, address, &tensor) ||
	        !gm_zero_plausible(&tensor))
		return false;
	*ret_tensor = tensor;
	return true;
}

bool gm_zero_tensor(struct gm_zero_reading *reading, uint64_t object, struct gm_tensor *ret_tensor)
{
	struct gm_zero_attribute local[] = {{"_local_tensor", 0}};
	if (object && gm_python_is_instance(reading->python, object, "DTensor")) {
		gm_zero_attributes(reading, object, local, 1);
		object = local[0].object;
	}
	return gm_zero_whole_tensor(reading, object, ret_tensor);
}

uint64_t gm_zero_tensor_bytes(const struct gm_tensor *tensor)
{
	return tensor->numel * tensor->element_bits / 8;
}

char *gm_zero_class(struct gm_zero_reading *reading, uint64_t object)
{
	const char *name;
	if (!object || !gm_python_type_name(reading->python, object, &name))
		return NULL;
	char *copy = strdup(name);
	reading->no_memory = reading->no_memory || !copy;
	return copy;
}
