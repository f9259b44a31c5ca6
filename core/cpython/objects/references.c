/*
 * The outgoing references of an object, by its type's layout, each with the name of the edge. There
 * is one edge for each counted reference, so that the result can be compared with reference counts:
 * an instance's dict is an edge of its own ("__dict__") and holds the values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/objects/emit.h"
#include "cpython/objects/references_frames.h"
#include "cpython/objects/shape.h"

/* --- containers ------------------------------------------------------------------------------- */

/* A key in the form in which it names an edge: the text of a str, the digits of an int, otherwise
 * NULL. */
static char *key_name(struct gm_python *python, uint64_t key)
{
	char *text = NULL;
	int64_t number;

	if (gm_python_str(python, key, 256, &text))
		return text;
	if (gm_py_int(python, key, &number) && asprintf(&text, "%lld", (long long)number) >= 0)
		return text;
	return NULL;
}

static bool dict_entry(void *context, uint64_t key, uint64_t value)
{
	struct gm_visit *visit = context;
	_cleanup_free_ char *name = visit->names ? key_name(visit->python, key) : NULL;

	return gm_py_emit(visit, key, GM_EDGE_DICT_KEY, name, -1) &&
	       gm_py_emit(visit, value, GM_EDGE_KEY, name, -1);
}

static bool split_entry(void *context, uint64_t key, uint64_t value)
{
	struct gm_visit *visit = context;
	_cleanup_free_ char *name = visit->names ? key_name(visit->python, key) : NULL;

	return gm_py_emit(visit, value, GM_EDGE_KEY, name, -1);
}

/* The keys of a split dict are held by the shared keys object. Values that are stored in an
 * instance (3.13, dictobject.c, dict_traverse()) are held by the instance; from 3.14 on by the
 * dict, if there is one. */
static bool visit_dict(struct gm_visit *visit, uint64_t object)
{
	struct gm_python *python = visit->python;
	const struct gm_python_layout *l = &python->layout;
	uint64_t values = gm_py_field(python, object, l->dict_values);
	uint8_t embedded = 0;

	if (values && l->values_embedded != GM_NO_FIELD &&
	        !gm_image_try_read(
	                python->image, values + (uint64_t)l->values_embedded, &embedded, 1))
		return false;
	return (embedded && !l->values_by_dict) ||
	       gm_py_dict_each(python, object, values ? split_entry : dict_entry, visit);
}

/* Objects/odictobject.c (3.9 to 3.15): an OrderedDict is a dict, then od_first. Each node
 * owns its key: key, hash, next. */
static bool visit_keys(struct gm_visit *visit, uint64_t object)
{
	enum { FIRST = 48, KEY = 0, NEXT = 2, WORDS, MAX_KEYS = 1 << 28 };
	uint64_t node = gm_py_field(visit->python, object, FIRST), words[WORDS], mark = 0;

	for (uint32_t i = 1; node && node != mark && i < MAX_KEYS; i++) {
		if (!(i & (i - 1)))
			mark = node;
		if (!gm_image_try_read(visit->python->image, node, words, sizeof(words)))
			return false;
		if (!gm_py_emit(visit, words[KEY], GM_EDGE_DICT_KEY, NULL, -1))
			return true;
		node = words[NEXT];
	}
	return !node;
}

static bool visit_list(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;
	uint64_t count = gm_py_size(visit->python, object);

	if (count > gm_py_field(visit->python, object, l->list_allocated))
		return false;
	return gm_py_emit_array(
	        visit, gm_py_field(visit->python, object, l->list_items), count, GM_EDGE_ITEM, 0);
}

static bool visit_set(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *layout = &visit->python->layout;
	uint64_t mask = gm_py_field(visit->python, object, layout->set_mask);
	uint64_t table = gm_py_field(visit->python, object, layout->set_table);
	uint64_t entries[256]
	                [2]; /* setentry: key, hash; a dummy's hash is -1 (Objects/setobject.c) */
	int64_t index = 0;

	if (mask > UINT64_C(1) << 40 || mask & (mask + 1))
		return false;
	for (uint64_t at = 0; at <= mask; at += 256) {
		uint64_t count = mask + 1 - at < 256 ? mask + 1 - at : 256;
		if (!gm_image_try_read(
		            visit->python->image, table + 16 * at, entries, (size_t)count * 16))
			return false;
		for (uint64_t i = 0; i < count; i++) {
			if (entries[i][0] && entries[i][1] != UINT64_MAX &&
			        !gm_py_emit(visit, entries[i][0], GM_EDGE_ITEM, NULL, index++))
				return true;
		}
	}
	return true;
}

static bool visit_deque(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *layout = &visit->python->layout;
	uint64_t left = gm_py_size(visit->python, object);
	uint64_t block = gm_py_field(visit->python, object, layout->deque_left_block);
	uint64_t first = gm_py_field(visit->python, object, layout->deque_left_index);
	uint64_t mark =
	        0; /* a damaged list of blocks may be a cycle: detected by Brent's algorithm */
	uint64_t step = 0;
	int64_t index = 0;

	if (first >= (uint64_t)layout->deque_block_length)
		return false;
	while (left && block && block != mark) {
		step++;
		if (!(step & (step - 1)))
			mark = block;
		uint64_t count = (uint64_t)layout->deque_block_length - first;
		if (count > left)
			count = left;
		if (!gm_py_emit_array(visit,
		            block + (uint64_t)layout->deque_block_items + 8 * first, count,
		            GM_EDGE_ITEM, index) ||
		        visit->stopped)
			return visit->stopped;
		index += (int64_t)count;
		left -= count;
		first = 0;
		block = gm_py_field(visit->python, block, layout->deque_block_right);
	}
	return !left;
}

/* --- types with a few fields ------------------------------------------------------------------ */

static void visit_fields(
        struct gm_visit *visit, uint64_t object, const struct gm_type_field *fields, size_t count)
{
	for (size_t i = 0; i < count && !visit->stopped; i++)
		gm_py_emit_field(visit, object, fields[i].offset, fields[i].kind, fields[i].name);
}

/* The object is a type itself. */
static bool visit_type(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;
	const struct gm_type *type = gm_py_type(visit->python, object);
	const struct gm_type_field fields[] = {
	        {l->type_dict, GM_EDGE_OTHER, "__dict__"},
	        {l->type_bases, GM_EDGE_OTHER, "__bases__"},
	        {l->type_base, GM_EDGE_OTHER, "__base__"},
	        {l->type_mro, GM_EDGE_OTHER, "__mro__"},
	        {l->type_cache, GM_EDGE_OTHER, "tp_cache"},
	        {l->heaptype_name, GM_EDGE_OTHER, "__name__"},
	        {l->heaptype_qualname, GM_EDGE_OTHER, "__qualname__"},
	        {l->heaptype_module, GM_EDGE_OTHER, "module"},
	};

	if (!type)
		return false;
	visit_fields(visit, object, fields, type->flags & GM_TYPE_FLAG_HEAP ? 8 : 5);
	return true;
}

/* Pointers in the object itself; their number is in the object. */
static bool visit_items(struct gm_visit *visit, uint64_t object, const struct gm_type *type)
{
	uint32_t count = 0;

	if (!type->items)
		return true;
	if (type->counted_at != GM_NO_FIELD)
		(void)gm_image_try_u32(
		        visit->python->image, object + (uint64_t)type->counted_at, &count);
	return gm_py_emit_array(visit, object + (uint64_t)type->items,
	        gm_py_item_count(type, type->counted_at != GM_NO_FIELD
	                                       ? count
	                                       : gm_py_size(visit->python, object)),
	        GM_EDGE_ITEM, 0);
}

/* Modules/_functoolsmodule.c: the cache's ring of links (lru_list_elem) begins and ends in the
 * wrapper itself; the ring and the cache's dict each hold every link. */
static bool visit_links(struct gm_visit *visit, uint64_t object)
{
	enum { NEXT = 24, MAX_LINKS = 1 << 24 };
	uint64_t link = gm_py_field(visit->python, object, NEXT);
	uint64_t mark = 0; /* a damaged ring that never comes back: Brent's algorithm */

	for (uint32_t i = 1; link && link != object && link != mark && i < MAX_LINKS; i++) {
		if (!(i & (i - 1)))
			mark = link;
		if (!gm_py_emit(visit, link, GM_EDGE_OTHER, "link", -1))
			return true;
		link = gm_py_field(visit->python, link, NEXT);
	}
	return link == object;
}

/* Modules/_queuemodule.c of 3.13: RingBuf. */
static bool visit_ring(struct gm_visit *visit, uint64_t object)
{
	enum { PUT, GET, ITEMS, CAPACITY, COUNT, WORDS, RING = 24 };
	uint64_t ring[WORDS];

	if (!gm_image_try_read(visit->python->image, object + RING, ring, sizeof(ring)) ||
	        ring[CAPACITY] > UINT64_C(1) << 40 || ring[COUNT] > ring[CAPACITY] ||
	        (ring[COUNT] && ring[GET] >= ring[CAPACITY]))
		return false;
	uint64_t tail = ring[CAPACITY] - ring[GET];
	uint64_t first = ring[COUNT] < tail ? ring[COUNT] : tail;
	return gm_py_emit_array(visit, ring[ITEMS] + 8 * ring[GET], first, GM_EDGE_ITEM, 0) &&
	       gm_py_emit_array(
	               visit, ring[ITEMS], ring[COUNT] - first, GM_EDGE_ITEM, (int64_t)first);
}

/* numpy/core/include/numpy/ndarraytypes.h (1.x and 2.x): data at 16, nd 24, dimensions 32, descr
 * 56, flags 64; a descr's kind at 24. An array that owns its data and whose kind is 'O' holds its
 * items. */
static bool visit_ndarray(struct gm_visit *visit, uint64_t object)
{
	enum { OWNDATA = 4, MAX_DIMENSIONS = 64 };
	struct gm_image *image = visit->python->image;
	uint64_t dimensions[MAX_DIMENSIONS], count = 1;
	uint32_t number, flags;
	char kind;

	if (!gm_image_try_read(
	            image, gm_py_field(visit->python, object, 56) + 24, &kind, sizeof(kind)))
		return false;
	if (kind != 'O')
		return true;
	if (!gm_image_try_u32(image, object + 24, &number) || number > MAX_DIMENSIONS ||
	        !gm_image_try_u32(image, object + 64, &flags) ||
	        (number && !gm_image_try_read(image, gm_py_field(visit->python, object, 32),
	                           dimensions, number * sizeof(*dimensions))))
		return false;
	if (!(flags & OWNDATA))
		return true;
	for (uint32_t i = 0; i < number; i++) {
		if (__builtin_mul_overflow(count, dimensions[i], &count) || count > UINT64_C(1)
		                                                                            << 40)
			return false;
	}
	return gm_py_emit_array(
	        visit, gm_py_field(visit->python, object, 16), count, GM_EDGE_ITEM, 0);
}

/* The references that follow from the type's own layout. False: not known. */
static bool visit_layout(struct gm_visit *visit, uint64_t object, const struct gm_type *type)
{
	struct gm_python *python = visit->python;
	const struct gm_python_layout *l = &python->layout;

	visit_fields(visit, object, type->fields.items, type->layout_fields);
	switch (type->kind) {
	case GM_TYPE_UNKNOWN:
		return false;
	case GM_TYPE_DICT:
		return visit_dict(visit, object) && (!type->ordered || visit_keys(visit, object));
	case GM_TYPE_LIST:
		return visit_list(visit, object);
	case GM_TYPE_TUPLE:
		return gm_py_emit_array(visit, object + (uint64_t)l->tuple_items,
		        gm_py_size(python, object), GM_EDGE_ITEM, 0);
	case GM_TYPE_SET:
		return visit_set(visit, object);
	case GM_TYPE_MODULE: /* what a C module stores in its state is not known */
		return !gm_py_field(python, object, l->module_state);
	case GM_TYPE_TYPE:
		return visit_type(visit, object);
	case GM_TYPE_FRAME:
		return gm_py_visit_frame_object(visit, object);
	case GM_TYPE_GENERATOR:
		return gm_py_visit_generator(visit, object);
	case GM_TYPE_DEQUE:
		return visit_deque(visit, object);
	case GM_TYPE_RING:
		return visit_ring(visit, object);
	case GM_TYPE_NDARRAY:
		return visit_ndarray(visit, object);
	case GM_TYPE_LRU:
		return visit_links(visit, object);
	case GM_TYPE_FIELDS:
		return visit_items(visit, object, type);
	default: /* its fields are all */
		return true;
	}
}

static bool inline_value(void *context, uint64_t key, uint64_t value)
{
	struct gm_visit *visit = context;
	_cleanup_free_ char *name = visit->names ? key_name(visit->python, key) : NULL;

	return gm_py_emit(visit, value, GM_EDGE_ATTRIBUTE, name, -1);
}

/* Was this reference visited already, as a known field? */
static bool is_known_word(struct gm_python *python, uint64_t object, const struct gm_type *type,
        int64_t offset, uint64_t word)
{
	if (offset == type->dictoffset || offset == type->weaklistoffset)
		return true;
	for (size_t i = 0; i < type->fields.count; i++) {
		if (type->fields.items[i].offset == offset ||
		        gm_py_field(python, object, type->fields.items[i].offset) == word)
			return true;
	}
	return false;
}

/* A C type's own part: words that point to objects. */
static void visit_guesses(struct gm_visit *visit, uint64_t object, const struct gm_type *type)
{
	struct gm_python *python = visit->python;

	for (int64_t at = type->guess_from; at && at + 8 <= type->basicsize && !visit->stopped;
	        at += 8) {
		uint64_t word = gm_py_field(python, object, (int32_t)at), count;
		char name[32];
		if (word < 4096 || word & 7 || is_known_word(python, object, type, at, word) ||
		        !gm_py_type_of(python, word) || !gm_python_refcount(python, word, &count) ||
		        !count || (count > UINT64_C(1) << 40 && count != UINT64_MAX))
			continue;
		snprintf(name, sizeof(name), "word at +%d", (int)at);
		gm_py_emit(visit, word, GM_EDGE_GUESS, name, -1);
	}
}

bool gm_python_references(
        struct gm_python *python, uint64_t object, gm_python_visit visitor, void *context)
{
	struct gm_visit visit = {
	        .python = python, .visit = visitor, .context = context, .names = true};
	const struct gm_type *type = gm_py_type_of(python, object);
	bool whole;

	if (!type)
		return false;
	whole = visit_layout(&visit, object, type);
	if (!python->layout.values_by_dict || !gm_py_instance_dict(python, object, type))
		gm_py_inline_values(python, object, type, inline_value, &visit);
	/* the dict of a function or module is one of its fields */
	if (type->kind != GM_TYPE_FUNCTION && type->kind != GM_TYPE_MODULE &&
	        type->kind != GM_TYPE_TYPE)
		gm_py_emit(&visit, gm_py_instance_dict(python, object, type), GM_EDGE_OTHER,
		        "__dict__", -1);
	visit_fields(&visit, object, type->fields.items + type->layout_fields,
	        type->fields.count - type->layout_fields);
	visit_guesses(&visit, object, type);
	/* the class of a class is recognized by name: few have a metaclass of their own */
	if (type->flags & GM_TYPE_FLAG_HEAP)
		gm_py_emit(&visit, type->address,
		        type->kind == GM_TYPE_TYPE ? GM_EDGE_OTHER : GM_EDGE_TYPE,
		        type->kind == GM_TYPE_TYPE ? "class" : NULL, -1);
	return whole && !type->in_part;
}
