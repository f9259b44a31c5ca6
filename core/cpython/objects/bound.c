/*
 * Bounds of containers: how many items one will ever have, where the container or its owner says
 * so. A deque has maxlen, functools.lru_cache has maxsize. A list of None that is filled from the
 * front has its length. An object that keeps a dict or a list may have the limit as an attribute,
 * which only its own code heeds.
 */
#include <string.h>

#include "cpython/python.h"

enum {
	LIST_MOST = 1 << 20,
	/* Modules/_collectionsmodule.c, dequeobject: leftindex, rightindex, state, maxlen */
	DEQUE_MAXLEN_BEHIND_LEFT_INDEX = 24,
	/* Modules/_functoolsmodule.c, lru_cache_object of 3.9 to 3.15 */
	LRU_CACHE = 72,
	LRU_MAXSIZE = 96,
};

static bool find_in_deque(
        struct gm_python *python, uint64_t deque, struct gm_python_bound *ret_bound)
{
	int64_t limit = (int64_t)gm_py_field(
	        python, deque, python->layout.deque_left_index + DEQUE_MAXLEN_BEHIND_LEFT_INDEX);
	*ret_bound = (struct gm_python_bound){
	        GM_PYTHON_BOUND_MAXLEN, (uint64_t)limit, gm_py_size(python, deque)};
	return limit >= 0 && ret_bound->count <= ret_bound->limit;
}

static bool count_entry(void *context, uint64_t key, uint64_t value)
{
	uint64_t *count = context;
	*count += value != 0;
	return true;
}

static bool find_in_lru(struct gm_python *python, uint64_t cache, struct gm_python_bound *ret_bound)
{
	int64_t limit = (int64_t)gm_py_field(python, cache, LRU_MAXSIZE);
	uint64_t entries = gm_py_field(python, cache, LRU_CACHE);
	const struct gm_type *type = entries ? gm_py_type_of(python, entries) : NULL;
	if (!type || type->kind != GM_TYPE_DICT)
		return false;
	*ret_bound = (struct gm_python_bound){GM_PYTHON_BOUND_MAXSIZE, (uint64_t)limit, 0};
	gm_py_dict_each(python, entries, count_entry, &ret_bound->count);
	/* maxsize=None is -1 */
	return limit >= 0 && ret_bound->count <= ret_bound->limit;
}

/* [tensor, tensor, None, None] */
static bool find_in_list(struct gm_python *python, uint64_t list, struct gm_python_bound *ret_bound)
{
	uint64_t length = gm_py_size(python, list), filled = 0;
	uint64_t items = gm_py_field(python, list, python->layout.list_items);
	const char *type;
	if (length < 2 || length > LIST_MOST || !items)
		return false;
	for (; filled < length; filled++) {
		uint64_t item = 0;
		if (!gm_image_try_read(python->image, items + 8 * filled, &item, sizeof(item)) ||
		        !gm_python_type_name(python, item, &type))
			return false;
		if (strcmp(type, "NoneType") == 0)
			break;
	}
	if (!filled || filled == length)
		return false;
	*ret_bound = (struct gm_python_bound){GM_PYTHON_BOUND_LENGTH, length, filled};
	/* None to the end */
	uint64_t last = 0;
	return gm_image_try_read(python->image, items + 8 * (length - 1), &last, sizeof(last)) &&
	       gm_python_type_name(python, last, &type) && strcmp(type, "NoneType") == 0;
}

bool gm_python_bound_of(
        struct gm_python *python, uint64_t container, struct gm_python_bound *ret_bound)
{
	const struct gm_type *type = gm_py_type_of(python, container);
	switch (type ? type->kind : GM_TYPE_PLAIN) {
	case GM_TYPE_DEQUE:
		return find_in_deque(python, container, ret_bound);
	case GM_TYPE_LRU:
		return find_in_lru(python, container, ret_bound);
	case GM_TYPE_LIST:
		return find_in_list(python, container, ret_bound);
	default:
		return false;
	}
}

/* How many items a list, deque or dict has; false: it is none of these. */
static bool count_items(struct gm_python *python, uint64_t container, uint64_t *ret_count)
{
	const struct gm_type *type = gm_py_type_of(python, container);
	*ret_count = 0;
	if (type && type->kind == GM_TYPE_DICT)
		gm_py_dict_each(python, container, count_entry, ret_count);
	else if (type && (type->kind == GM_TYPE_LIST || type->kind == GM_TYPE_DEQUE))
		*ret_count = gm_py_size(python, container);
	else
		return false;
	return true;
}

bool gm_python_bound_by_owner(struct gm_python *python, uint64_t owner, uint64_t container,
        struct gm_python_bound *ret_bound)
{
	static const char *const names[] = {"maxlen", "maxsize", "capacity", "max_len", "max_size",
	        "max_length", "max_entries", "max_items", "max_capacity", "buffer_size",
	        "cache_size", "_maxsize", "_maxlen", "_capacity", "_max_size", "_max_len", "limit"};
	uint64_t count;
	if (!count_items(python, container, &count))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t value = gm_py_attribute(python, owner, names[i]);
		int64_t limit;
		if (!value || !gm_py_int(python, value, &limit) || limit < 2 ||
		        (uint64_t)limit < count)
			continue;
		*ret_bound = (struct gm_python_bound){
		        GM_PYTHON_BOUND_ATTRIBUTE, (uint64_t)limit, count, names[i]};
		return true;
	}
	return false;
}
