/*
 * The arrays and tables that objects own, as the walk reads them: a list's items, a dict's entries,
 * values of split dicts and instances, a set's entries.
 */
#include <string.h>

#include "base/sort.h"
#include "cpython/sweep/walker.h"

enum { SAMPLES = 32 };

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

/* Does a part of a large array look like other memory? Then its length is damaged. */
static bool is_other_memory(struct gm_walker *walker, const struct entries *entries, size_t count)
{
	size_t step = count / SAMPLES + 1, seen = 0, wrong = 0;
	for (size_t i = 0; i < count; i += step) {
		uint64_t target = gm_u64_at(walker->large + i * entries->size, entries->value);
		if (!target)
			continue;
		seen++;
		wrong += gm_walk_look_there(walker, target) == GM_NO_OBJECT;
	}
	return seen >= SAMPLES / 4 && wrong > seen / 4;
}

/* Notes a part of a large array. False: another array has this memory already, so that the length
 * of one of them is damaged. */
static bool is_first_there(struct gm_walker *walker, uint64_t start, uint64_t size)
{
	uint64_t end = (start + size) & ~(uint64_t)(GM_KEPT_PAGE - 1);
	bool is_new = true;
	start = (start + GM_KEPT_PAGE - 1) & ~(uint64_t)(GM_KEPT_PAGE - 1);
	for (; start < end && is_new; start += GM_KEPT_PAGE)
		if (!gm_address_set_add(&walker->large_pages, start / GM_KEPT_PAGE * 8, &is_new))
			walker->no_memory = true;
	return is_new;
}

/* Entries; many are read in parts. A damaged length would note whatever is in memory behind the
 * array. So each part is read for one array only, and of a sweep's some entries are looked at
 * before they are noted, after each doubling. */
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
	size_t at_once = GM_WALK_LARGE / entries->size, next_look = at_once;
	for (uint64_t at = 0; at < entries->count && !walker->no_memory; at += at_once) {
		size_t count =
		        entries->count - at < at_once ? (size_t)(entries->count - at) : at_once;
		if (!gm_image_try_read(walker->python->image, entries->address + at * entries->size,
		            walker->large, count * entries->size))
			return;
		if (!is_first_there(
		            walker, entries->address + at * entries->size, count * entries->size))
			return;
		if (walker->by_address && at >= next_look) {
			if (is_other_memory(walker, entries, count))
				return;
			next_look *= 2;
		}
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
