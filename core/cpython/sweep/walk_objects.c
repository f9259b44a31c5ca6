/*
 * The inner part of the walk: the references of an object, from bytes that are in memory; arrays
 * that it owns are queued for walk_arrays.c. The rules are those of references.c, which visits one
 * object at a time and gives names.
 */
#include <string.h>

#include "cpython/sweep/walker.h"

enum {
	BEFORE = 32,  /* bytes before an object that may contain its dict (3.11+) */
	AT_ONCE = 64, /* bytes of an object that are read together with its neighbours'; few have
	                 more */
	MAX_BASIC = GM_STORE_CAPACITY - BEFORE,
};

static void request(struct gm_walker *walker, uint32_t from, enum gm_walk_array array,
        uint64_t address, uint64_t detail, enum gm_edge_kind extra)
{
	struct gm_walk_request request = {
	        address, detail, from, walker->position, (uint16_t)array, (uint16_t)extra};
	if (address && !(address & 7) && !gm_array_push(&walker->requests, request))
		walker->no_memory = true;
}

struct slow {
	struct gm_walker *walker;
	uint32_t from;
};

static bool emit_slowly(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct slow *slow = context;
	uint32_t extra = (uint32_t)kind;
	if (kind == GM_EDGE_OTHER && name && strcmp(name, "__dict__") == 0)
		extra |= GM_WALK_OWN_DICT;
	struct gm_walk_outside reference = {target, slow->from, extra};
	if (kind != GM_EDGE_TYPE && !gm_array_push(&slow->walker->slow, reference))
		slow->walker->no_memory = true;
	return !slow->walker->no_memory;
}

/* Frames, generators, deques and similar: there are few, and their layout is handled elsewhere. */
static void walk_slowly(struct gm_walker *walker, uint32_t from, uint64_t address)
{
	struct slow slow = {walker, from};
	pthread_mutex_lock(&walker->walk->lock);
	gm_python_references(walker->python, address, emit_slowly, &slow);
	pthread_mutex_unlock(&walker->walk->lock);
	/* a new type is read with that lock held too */
	for (size_t i = 0; i < walker->slow.count; i++)
		gm_walk_emit(walker, from, walker->slow.items[i].to, walker->slow.items[i].extra);
	walker->slow.count = 0;
}

static bool is_slow(const struct gm_type *type)
{
	return type->ordered || type->kind == GM_TYPE_FRAME || type->kind == GM_TYPE_GENERATOR ||
	       type->kind == GM_TYPE_DEQUE || type->kind == GM_TYPE_RING ||
	       type->kind == GM_TYPE_NDARRAY || type->kind == GM_TYPE_LRU || type->items ||
	       type->basicsize > MAX_BASIC;
}

static uint64_t size_of(const struct gm_python_layout *layout, const uint8_t *bytes)
{
	uint64_t size = gm_u64_at(bytes, layout->object_size);
	return size > INT64_MAX / 16 ? 0 : size;
}

/* A tuple's items: usually few, and directly here. */
static void walk_tuple(
        struct gm_walker *walker, uint32_t from, uint64_t address, const uint8_t *bytes)
{
	const struct gm_python_layout *layout = &walker->python->layout;
	uint64_t count = size_of(layout, bytes);
	uint64_t first = address + (uint64_t)layout->tuple_items;
	const uint8_t *items = count > 0 && count <= GM_STORE_CAPACITY / 8
	                               ? gm_store_at(&walker->store, first, count * 8)
	                               : NULL;
	if (!items) {
		if (count > 0)
			request(walker, from, GM_WALK_ITEMS, first, count, GM_EDGE_ITEM);
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		gm_walk_emit(walker, from, gm_u64_at(items, (int32_t)i * 8), GM_EDGE_ITEM);
}

/* The object is a class, `type` its metaclass. A static class has only a PyTypeObject. */
static void walk_class(
        struct gm_walker *walker, uint32_t from, const uint8_t *bytes, const struct gm_type *type)
{
	const int64_t size = type->basicsize;
	const struct gm_python_layout *l = &walker->python->layout;
	const int32_t fields[] = {l->type_dict, l->type_bases, l->type_base, l->type_mro,
	        l->type_cache, l->heaptype_name, l->heaptype_qualname, l->heaptype_module};
	enum { ALL = sizeof(fields) / sizeof(fields[0]), STATIC = 5 };
	if (l->type_flags + 8 > size)
		return;
	size_t count = gm_u64_at(bytes, l->type_flags) & GM_TYPE_FLAG_HEAP ? ALL : STATIC;
	for (size_t i = 0; i < count; i++)
		if (fields[i] != GM_NO_FIELD && fields[i] + 8 <= size)
			gm_walk_emit(walker, from, gm_u64_at(bytes, fields[i]),
			        i == 0 ? GM_EDGE_OTHER | GM_WALK_OWN_DICT : GM_EDGE_OTHER);
	if (type->flags & GM_TYPE_FLAG_HEAP) /* few have a metaclass of their own */
		gm_walk_emit(walker, from, type->address, GM_EDGE_OTHER);
}

static void walk_contents(struct gm_walker *walker, uint32_t from, uint64_t address,
        const uint8_t *bytes, const struct gm_type *type)
{
	const struct gm_python_layout *l = &walker->python->layout;
	uint64_t count;
	switch (type->kind) {
	case GM_TYPE_DICT:
		if (gm_u64_at(bytes, l->dict_values))
			request(walker, from, GM_WALK_VALUES, gm_u64_at(bytes, l->dict_values),
			        gm_u64_at(bytes, l->dict_keys), GM_EDGE_KEY);
		else
			request(walker, from, GM_WALK_KEYS, gm_u64_at(bytes, l->dict_keys), 0,
			        GM_EDGE_KEY);
		break;
	case GM_TYPE_LIST:
		count = size_of(l, bytes);
		if (count > 0 && count <= gm_u64_at(bytes, l->list_allocated))
			request(walker, from, GM_WALK_ITEMS, gm_u64_at(bytes, l->list_items), count,
			        GM_EDGE_ITEM);
		break;
	case GM_TYPE_SET:
		count = gm_u64_at(bytes, l->set_mask);
		if (count <= UINT64_C(1) << 40 && !(count & (count + 1)))
			request(walker, from, GM_WALK_SET, gm_u64_at(bytes, l->set_table),
			        count + 1, GM_EDGE_ITEM);
		break;
	case GM_TYPE_TUPLE:
		walk_tuple(walker, from, address, bytes);
		break;
	case GM_TYPE_TYPE:
		walk_class(walker, from, bytes, type);
		break;
	default:
		break;
	}
}

/* Attributes without a dict, and the dict: attributes.c says where each version stores them. */
static void walk_attributes(struct gm_walker *walker, uint32_t from, uint64_t address,
        const uint8_t *bytes, const struct gm_walk_type *known)
{
	const struct gm_python_layout *l = &walker->python->layout;
	const struct gm_type *type = known->type;
	uint64_t dict = 0, values = 0, count = known->inline_count;
	if (l->managed_dict != GM_NO_FIELD && type->flags & GM_TYPE_FLAG_MANAGED_DICT) {
		uint64_t word = gm_u64_at(bytes, l->managed_dict);
		dict = word & GM_DICT_TAG ? 0 : word;
		if (l->managed_values != GM_NO_FIELD) { /* 3.11 */
			values = gm_u64_at(bytes, l->managed_values);
		} else if (l->values_valid == GM_NO_FIELD) { /* 3.12 */
			values = word & GM_DICT_TAG ? word + 1 : 0;
		} else if (type->flags & GM_TYPE_FLAG_INLINE_VALUES) {
			uint64_t end = address + (uint64_t)type->basicsize;
			const uint8_t *head = gm_store_at(&walker->store, end, 8);
			values = head && head[l->values_valid] ? end : 0;
			if (values && count > head[l->values_capacity])
				count = head[l->values_capacity];
		}
		if (values && count && !(dict && l->values_by_dict))
			request(walker, from, GM_WALK_ITEMS, values + (uint64_t)l->values_items,
			        count, GM_EDGE_ATTRIBUTE);
	} else if (type->dictoffset >= 16 && type->dictoffset + 8 <= type->basicsize) {
		dict = gm_u64_at(bytes, (int32_t)type->dictoffset);
	} else if (type->dictoffset < 0) { /* after the items (Objects/object.c) */
		int64_t items = (int64_t)gm_u64_at(bytes, l->object_size);
		items = items < 0 ? -items : items;
		int64_t offset = items > INT32_MAX
		                         ? 0
		                         : ((type->basicsize + items * type->itemsize + 7) & ~7) +
		                                   type->dictoffset;
		const uint8_t *word =
		        offset >= 16 ? gm_store_at(&walker->store, address + (uint64_t)offset, 8)
		                     : NULL;
		dict = word ? gm_u64_at(word, 0) : 0;
	}
	gm_walk_emit(walker, from, dict, GM_EDGE_OTHER | GM_WALK_OWN_DICT);
}

/* Words of a C type's own part; those that point to no object are removed with the unknown targets.
 * */
static void walk_guesses(struct gm_walker *walker, uint32_t from, const uint8_t *bytes,
        const struct gm_type *type, int32_t guess_from)
{
	for (int32_t at = guess_from; at + 8 <= type->basicsize; at += 8) {
		uint64_t word = gm_u64_at(bytes, at);
		bool known = word < 4096 || at == type->dictoffset || at == type->weaklistoffset;
		for (size_t i = 0; i < type->fields.count && !known; i++) {
			int32_t offset = type->fields.items[i].offset;
			known = offset >= 16 && offset + 8 <= type->basicsize &&
			        (offset == at || gm_u64_at(bytes, offset) == word);
		}
		if (!known)
			gm_walk_emit(walker, from, word, GM_EDGE_GUESS);
	}
}

static void walk_object(
        struct gm_walker *walker, uint32_t from, uint64_t address, const uint8_t *bytes)
{
	const struct gm_python_layout *layout = &walker->python->layout;
	const struct gm_walk_type *found =
	        gm_walk_type_at(walker, gm_u64_at(bytes, layout->object_type));
	/* a copy: its references may be examined meanwhile, and its type may take the same slot */
	struct gm_walk_type known = found ? *found : (struct gm_walk_type){0};
	const struct gm_type *type = known.type;
	uint8_t copy[MAX_BASIC + BEFORE];
	if (!type || type->atom)
		return;
	if (is_slow(type)) {
		walk_slowly(walker, from, address);
		return;
	}
	if (type->basicsize > AT_ONCE - BEFORE) {
		size_t size = (size_t)type->basicsize + BEFORE;
		const uint8_t *whole = gm_store_at(&walker->store, address - BEFORE, size);
		if (!whole)
			return;
		bytes = (const uint8_t *)memcpy(copy, whole, size) + BEFORE;
	}
	for (size_t i = 0; i < type->fields.count; i++) {
		const struct gm_type_field *field = &type->fields.items[i];
		uint32_t extra = (uint32_t)field->kind;
		if (field->offset + 8 > type->basicsize || field->offset < 16)
			continue;
		if (field->kind == GM_EDGE_OTHER && field->name[0] == '_' &&
		        strcmp(field->name, "__dict__") == 0)
			extra |= GM_WALK_OWN_DICT;
		gm_walk_emit(walker, from, gm_u64_at(bytes, field->offset), extra);
	}
	walk_contents(walker, from, address, bytes, type);
	if (type->kind != GM_TYPE_FUNCTION && type->kind != GM_TYPE_MODULE &&
	        type->kind != GM_TYPE_TYPE)
		walk_attributes(walker, from, address, bytes, &known);
	if (known.guess_from)
		walk_guesses(walker, from, bytes, type, known.guess_from);
}

/* The arrays of one object, from `first` on, by address: at once, if all of them are in the cache.
 * */
static void walk_kept_arrays(struct gm_walker *walker, size_t first)
{
	struct gm_walk_request *requests = walker->requests.items + first;
	size_t count = walker->requests.count - first;
	const uint8_t *heads[4];
	if (count > sizeof(heads) / sizeof(heads[0]))
		return;
	for (size_t i = 0; i < count; i++)
		for (size_t k = i; k > 0 && requests[k].address < requests[k - 1].address; k--) {
			struct gm_walk_request swapped = requests[k];
			requests[k] = requests[k - 1];
			requests[k - 1] = swapped;
		}
	for (size_t i = 0; i < count; i++) {
		heads[i] = gm_store_have(&walker->store, requests[i].address,
		        gm_walk_head_size(walker, &requests[i]));
		if (!heads[i])
			return;
	}
	for (size_t i = 0; i < count; i++)
		gm_walk_array(walker, &requests[i], heads[i]);
	walker->requests.count = first;
}

void gm_walk_objects(struct gm_walker *walker, const uint64_t *addresses, const uint32_t *numbers,
        uint32_t first, size_t count)
{
	for (size_t i = 0; i < count && !walker->no_memory; i++) {
		uint8_t copy[AT_ONCE]; /* because more of it is read */
		size_t requests = walker->requests.count;
		walker->starts.items[walker->starts.count++] = (uint32_t)walker->references.count;
		walker->position = (uint32_t)i;
		const uint8_t *bytes = gm_store_at(&walker->store, addresses[i] - BEFORE, AT_ONCE);
		if (!bytes) /* at most the last one of a mapping */
			continue;
		memcpy(copy, bytes, sizeof(copy));
		walk_object(walker, numbers ? numbers[i] : first + (uint32_t)i, addresses[i],
		        copy + BEFORE);
		if (walker->requests.count > requests)
			walk_kept_arrays(walker, requests);
		gm_walk_pause(walker);
	}
}
