/*
 * Attributes of instances, wherever a version stores them: an instance dict at tp_dictoffset, a
 * managed dict before the object (3.11+), inline values without a dict, slots. No descriptors are
 * run.
 *
 * Include/internal/pycore_object.h: 3.11 has the pointer to the values 4 words before the object
 * and the dict's 3; 3.12 one word for both, with the low bit set for values; 3.13 stores the values
 * after the object.
 */
#include <string.h>

#include "cpython/python.h"

/* A negative tp_dictoffset counts from the end of a variable-sized object (Objects/object.c). */
static uint64_t dict_pointer(struct gm_python *python, uint64_t object, const struct gm_type *type)
{
	int64_t offset = type->dictoffset;

	if (offset < 0) {
		int64_t items = (int64_t)gm_py_field(python, object, python->layout.object_size);
		int64_t size;
		items = items < 0 ? -items : items;
		if (items > INT32_MAX)
			return 0;
		size = (type->basicsize + items * type->itemsize + 7) & ~INT64_C(7);
		offset += size;
	}
	return offset >= 16 ? object + (uint64_t)offset : 0;
}

uint64_t gm_py_instance_dict(struct gm_python *python, uint64_t object, const struct gm_type *type)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t pointer;
	uint64_t dict = 0;

	if (layout->managed_dict != GM_NO_FIELD && type->flags & GM_TYPE_FLAG_MANAGED_DICT) {
		dict = gm_py_field(python, object, layout->managed_dict);
		return dict & GM_DICT_TAG ? 0 : dict;
	}
	if (!type->dictoffset)
		return 0;
	pointer = dict_pointer(python, object, type);
	return pointer && gm_py_u64(python, pointer, &dict) ? dict : 0;
}

static uint64_t inline_values(
        struct gm_python *python, uint64_t object, const struct gm_type *type, uint64_t *ret_max)
{
	const struct gm_python_layout *layout = &python->layout;
	uint64_t values;

	*ret_max = GM_MAX_INLINE_VALUES;
	if (!type->cached_keys || layout->managed_dict == GM_NO_FIELD ||
	        !(type->flags & GM_TYPE_FLAG_MANAGED_DICT))
		return 0;
	if (layout->managed_values != GM_NO_FIELD) /* 3.11 */
		return gm_py_field(python, object, layout->managed_values);
	if (layout->values_valid == GM_NO_FIELD) { /* 3.12 */
		values = gm_py_field(python, object, layout->managed_dict);
		return values & GM_DICT_TAG ? values + 1 : 0;
	}
	if (!(type->flags & GM_TYPE_FLAG_INLINE_VALUES))
		return 0;
	uint8_t head[8];
	values = object + (uint64_t)type->basicsize;
	if (!gm_image_try_read(python->image, values, head, sizeof(head)) ||
	        !head[layout->values_valid])
		return 0;
	*ret_max = head[layout->values_capacity];
	return values;
}

bool gm_py_inline_values(struct gm_python *python, uint64_t object, const struct gm_type *type,
        gm_dict_visit visit, void *context)
{
	uint64_t max;
	uint64_t values = inline_values(python, object, type, &max);

	return values &&
	       gm_py_values_each(python, type->cached_keys,
	               values + (uint64_t)python->layout.values_items, max, visit, context);
}

struct by_name {
	struct gm_python *python;
	const char *name;
	uint64_t value;
};

static bool is_named(void *context, uint64_t key, uint64_t value)
{
	struct by_name *by = context;

	if (!gm_py_str_equals(by->python, key, by->name))
		return true;
	by->value = value;
	return false;
}

static uint64_t class_attribute(
        struct gm_python *python, const struct gm_type *type, const char *name)
{
	for (unsigned depth = 0; type && depth < GM_MAX_TYPE_DEPTH; type = type->base, depth++) {
		uint64_t dict = gm_py_field(python, type->address, python->layout.type_dict);
		uint64_t value = dict ? gm_py_dict_get_str(python, dict, name) : 0;
		if (value)
			return value;
	}
	return 0;
}

uint64_t gm_py_attribute(struct gm_python *python, uint64_t object, const char *name)
{
	static const char *const registries[] = {"_parameters", "_buffers", "_modules"};
	const struct gm_type *type = gm_py_type_of(python, object);
	struct by_name by = {python, name, 0};
	uint64_t dict;
	uint64_t value;

	if (!type)
		return 0;
	if (type->kind == GM_TYPE_TYPE)
		return class_attribute(python, gm_py_type(python, object), name);
	gm_py_inline_values(python, object, type, is_named, &by);
	if (by.value)
		return by.value;
	dict = type->kind == GM_TYPE_MODULE
	               ? gm_py_field(python, object, python->layout.module_dict)
	               : gm_py_instance_dict(python, object, type);
	if (!strcmp(name, "__dict__"))
		return dict;
	value = dict ? gm_py_dict_get_str(python, dict, name) : 0;
	if (value)
		return value;
	for (const struct gm_type *t = type; t; t = t->base) {
		for (size_t i = 0; i < t->members.count; i++) {
			if (strcmp(t->members.items[i].name, name) != 0)
				continue;
			if (gm_py_u64(python, object + (uint64_t)t->members.items[i].offset,
			            &value) &&
			        value)
				return value;
		}
	}
	/* Attributes that torch.nn.Module.__getattr__ finds in its own dicts. */
	for (size_t i = 0; i < sizeof(registries) / sizeof(registries[0]); i++) {
		uint64_t registry;
		by = (struct by_name){python, registries[i], 0};
		gm_py_inline_values(python, object, type, is_named, &by);
		registry = by.value ? by.value
		           : dict   ? gm_py_dict_get_str(python, dict, registries[i])
		                    : 0;
		value = registry ? gm_py_dict_get_str(python, registry, name) : 0;
		if (value)
			return value;
	}
	return class_attribute(python, type, name);
}
