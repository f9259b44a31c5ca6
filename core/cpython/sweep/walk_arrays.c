/*
 * The arrays and tables that objects own, as the walk reads them: a list's items, a dict's entries,
 * values of split dicts and instances, a set's entries.
 */
#include <string.h>

#include "base/sort.h"
#include "cpython/sweep/walker.h"

struct entries {
	uint64_t address;
	uint64_t count;
	size_t size;        /* of an entry */
	int32_t key, value; /* offsets in an entry; -1: none */
	uint32_t key_extra, value_extra;
};

static void emit_entries(struct gm_walker *walker, uint32_t from, const struct entries *entries,
        const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++, bytes += entries->size) {
		uint64_t value = gm_u64_at(bytes, entries->value);
		if (!value)
			continue;
		if (entries->key >= 0)
			gm_walk_emit(
			        walker, from, gm_u64_at(bytes, entries->key), entries->key_extra);
		gm_walk_emit(walker, from, value, entries->value_extra);
	}
}

/* Entries; many are read in parts. */
static void walk_entries(struct gm_walker *walker, uint32_t from, const struct entries *entries)
{
	if (entries->count == 0)
		return;
	if (entries->count <= GM_STORE_CAPACITY / entries->size) {
		const uint8_t *here = gm_store_at(
		        &walker->store, entries->address, entries->count * entries->size);
		if (here)
			emit_entries(walker, from, entries, here, entries->count);
		return;
	}
	size_t at_once = GM_WALK_LARGE / entries->size;
	for (uint64_t at = 0; at < entries->count && !walker->no_memory; at += at_once) {
		size_t count =
		        entries->count - at < at_once ? (size_t)(entries->count - at) : at_once;
		if (!gm_image_try_read(walker->python->image, entries->address + at * entries->size,
		            walker->large, count * entries->size))
			return;
		emit_entries(walker, from, entries, walker->large, count);
		gm_walk_pause(walker);
	}
}

/* The number of attributes in the keys that split dicts share. */
static uint64_t shared_count(struct gm_walker *walker, uint64_t address)
{
	struct gm_dict_keys keys;
	if (walker->shared_keys != address) {
		walker->shared_keys = address;
		walker->shared_count =
		        gm_py_read_keys(walker->python, address, &keys) ? keys.count : 0;
	}
	return walker->shared_count;
}

static void walk_keys(
        struct gm_walker *walker, const struct gm_walk_request *request, const uint8_t *head)
{
	struct gm_dict_keys keys;
	if (!gm_py_keys_decode(&walker->python->layout, request->address, head, &keys))
		return;
	struct entries entries = {
	        keys.entries, keys.count, keys.size, -1, 8, GM_EDGE_DICT_KEY, GM_EDGE_KEY};
	if (keys.size == 24) { /* 16: the keys are strings */
		entries.key = 8;
		entries.value = 16;
	}
	walk_entries(walker, request->from, &entries);
}

size_t gm_walk_head_size(const struct gm_walker *walker, const struct gm_walk_request *request)
{
	/* an array with one pointer may be the last in a mapping */
	return request->array == GM_WALK_KEYS ? (size_t)walker->python->layout.keys_indices : 8;
}

void gm_walk_array(
        struct gm_walker *walker, const struct gm_walk_request *request, const uint8_t *head)
{
	const struct gm_python_layout *layout = &walker->python->layout;
	struct entries entries = {request->address, request->detail, 8, -1, 0, 0, request->extra};
	switch (request->array) {
	case GM_WALK_KEYS:
		walk_keys(walker, request, head);
		return;
	case GM_WALK_SET: /* setentry: key, hash (Objects/setobject.c); a dummy is a plain object */
		entries.size = (size_t)layout->set_entry_size;
		break;
	case GM_WALK_VALUES:
		/* values that are stored in an instance are held by it (3.13, dict_traverse()) */
		if (layout->values_embedded != GM_NO_FIELD && !layout->values_by_dict &&
		        head[layout->values_embedded])
			return;
		entries.address += (uint64_t)layout->values_items;
		entries.count = shared_count(walker, request->detail);
		if (layout->values_embedded != GM_NO_FIELD && head[layout->values_embedded] &&
		        entries.count > head[layout->values_capacity])
			entries.count = head[layout->values_capacity];
		break;
	default:
		break;
	}
	walk_entries(walker, request->from, &entries);
}

void gm_walk_arrays(struct gm_walker *walker)
{
	struct gm_walk_request *requests = walker->requests.items;
	size_t count = walker->requests.count;
	if (!gm_array_reserve(&walker->scratch, count * sizeof(*requests) + 1)) {
		walker->no_memory = true;
		return;
	}
	gm_sort_by_address(requests, walker->scratch.items, count, sizeof(*requests));
	walker->is_late = true;
	for (size_t i = 0; i < count && !walker->no_memory; i++) {
		uint8_t copy[GM_KEYS_HEAD];
		size_t size = gm_walk_head_size(walker, &requests[i]);
		const uint8_t *head = gm_store_at(&walker->store, requests[i].address, size);
		if (!head)
			continue;
		memcpy(copy, head, size);
		walker->position = requests[i].position;
		gm_walk_array(walker, &requests[i], copy);
		gm_walk_pause(walker);
	}
	walker->is_late = false;
}
