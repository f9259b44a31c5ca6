/*
 * What an object holds: its outgoing references by its type's layout, each with the name of the
 * edge. One edge per counted reference, so that what is found can be compared with reference
 * counts: an instance's dict is an edge of its own ("__dict__") and holds the values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/references.h"

static bool emit(struct gm_visit *visit, uint64_t target, enum gm_edge_kind kind, const char *name,
        int64_t index)
{
	if (!target || visit->stopped)
		return !visit->stopped;
	if (!visit->visit(visit->context, target, kind, name, index))
		visit->stopped = true;
	return !visit->stopped;
}

bool gm_py_emit_field(struct gm_visit *visit, uint64_t object, int32_t offset,
        enum gm_edge_kind kind, const char *name)
{
	return emit(visit, gm_py_field(visit->python, object, offset), kind, name, -1);
}

/* Visits `count` pointers from `address` on. */
bool gm_py_emit_array(struct gm_visit *visit, uint64_t address, uint64_t count,
        enum gm_edge_kind kind, int64_t first)
{
	enum { BATCH = 256 };
	uint64_t items[BATCH];

	for (uint64_t at = 0; at < count; at += BATCH) {
		uint64_t more = count - at < BATCH ? count - at : BATCH;
		if (!gm_image_try_read(
		            visit->python->image, address + 8 * at, items, (size_t)more * 8))
			return false;
		for (uint64_t i = 0; i < more; i++) {
			if (!emit(visit, items[i], kind, NULL, first + (int64_t)(at + i)))
				return true;
		}
	}
	return true;
}

/* --- containers
 * ------------------------------------------------------------------------------------ */

/* A key as an edge is named by it: the text of a str, the digits of an int, else NULL. */
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

	return emit(visit, key, GM_EDGE_DICT_KEY, name, -1) &&
	       emit(visit, value, GM_EDGE_KEY, name, -1);
}

static bool split_entry(void *context, uint64_t key, uint64_t value)
{
	struct gm_visit *visit = context;
	_cleanup_free_ char *name = visit->names ? key_name(visit->python, key) : NULL;

	return emit(visit, value, GM_EDGE_KEY, name, -1);
}

/* A split dict's keys are held by the keys object that it shares; values that lie within an instance (3.13+,
 * dictobject.c, dict_traverse()) are held by that. */
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
	return embedded ||
	       gm_py_dict_each(python, object, values ? split_entry : dict_entry, visit);
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
			        !emit(visit, entries[i][0], GM_EDGE_ITEM, NULL, index++))
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
	uint64_t mark = 0; /* a damaged list of blocks may be a cycle: Brent's way to notice */
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

/* --- types with a few fields
 * ----------------------------------------------------------------------- */

struct field {
	int32_t offset;
	enum gm_edge_kind kind;
	const char *name;
};

static bool visit_fields(
        struct gm_visit *visit, uint64_t object, const struct field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!gm_py_emit_field(
		            visit, object, fields[i].offset, fields[i].kind, fields[i].name))
			return true;
	}
	return true;
}
#define VISIT_FIELDS(visit, object, ...)                                 \
	visit_fields(visit, object, (const struct field[]){__VA_ARGS__}, \
	        sizeof((const struct field[]){__VA_ARGS__}) / sizeof(struct field))

static bool visit_function(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;

	return VISIT_FIELDS(visit, object, {l->function_closure, GM_EDGE_CLOSURE, "__closure__"},
	        {l->function_defaults, GM_EDGE_DEFAULT, "__defaults__"},
	        {l->function_kwdefaults, GM_EDGE_DEFAULT, "__kwdefaults__"},
	        {l->function_dict, GM_EDGE_OTHER, "__dict__"},
	        {l->function_globals, GM_EDGE_OTHER, "__globals__"},
	        {l->function_code, GM_EDGE_OTHER, "__code__"},
	        {l->function_name, GM_EDGE_OTHER, "__name__"},
	        {l->function_qualname, GM_EDGE_OTHER, "__qualname__"},
	        {l->function_module, GM_EDGE_OTHER, "__module__"},
	        {l->function_doc, GM_EDGE_OTHER, "__doc__"},
	        {l->function_annotations, GM_EDGE_OTHER, "__annotations__"},
	        {l->function_builtins, GM_EDGE_OTHER, "__builtins__"},
	        {l->function_typeparams, GM_EDGE_OTHER, "__type_params__"});
}

static bool visit_exception(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;

	return VISIT_FIELDS(visit, object, {l->exception_args, GM_EDGE_OTHER, "args"},
	        {l->exception_traceback, GM_EDGE_OTHER, "__traceback__"},
	        {l->exception_context, GM_EDGE_OTHER, "__context__"},
	        {l->exception_cause, GM_EDGE_OTHER, "__cause__"},
	        {l->exception_notes, GM_EDGE_OTHER, "__notes__"});
}

static bool visit_type(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;
	const struct gm_type *type = gm_py_type(visit->python, object);

	if (!type)
		return false;
	if (!VISIT_FIELDS(visit, object, {l->type_dict, GM_EDGE_OTHER, "__dict__"},
	            {l->type_bases, GM_EDGE_OTHER, "__bases__"},
	            {l->type_base, GM_EDGE_OTHER, "__base__"},
	            {l->type_mro, GM_EDGE_OTHER, "__mro__"},
	            {l->type_cache, GM_EDGE_OTHER, "tp_cache"}))
		return false;
	if (type->flags & GM_TYPE_FLAG_HEAP)
		return VISIT_FIELDS(visit, object, {l->heaptype_name, GM_EDGE_OTHER, "__name__"},
		        {l->heaptype_qualname, GM_EDGE_OTHER, "__qualname__"},
		        {l->heaptype_module, GM_EDGE_OTHER, "module"});
	return true;
}

static bool visit_code(struct gm_visit *visit, uint64_t object)
{
	const struct gm_python_layout *l = &visit->python->layout;

	return VISIT_FIELDS(visit, object, {l->code_consts, GM_EDGE_OTHER, "co_consts"},
	        {l->code_names, GM_EDGE_OTHER, "co_names"},
	        {l->code_filename, GM_EDGE_OTHER, "co_filename"},
	        {l->code_name, GM_EDGE_OTHER, "co_name"},
	        {l->code_qualname, GM_EDGE_OTHER, "co_qualname"},
	        {l->code_locals_names, GM_EDGE_OTHER, "co_localsplusnames"},
	        {l->code_locals_kinds, GM_EDGE_OTHER, "co_localspluskinds"},
	        {l->code_varnames, GM_EDGE_OTHER, "co_varnames"},
	        {l->code_cellvars, GM_EDGE_OTHER, "co_cellvars"},
	        {l->code_freevars, GM_EDGE_OTHER, "co_freevars"},
	        {l->code_bytes, GM_EDGE_OTHER, "co_code"},
	        {l->code_lines, GM_EDGE_OTHER, "co_linetable"});
}

/* What the layout of the type itself holds. False: not known. */
static bool visit_layout(struct gm_visit *visit, uint64_t object, const struct gm_type *type)
{
	struct gm_python *python = visit->python;
	const struct gm_python_layout *l = &python->layout;

	switch (type->kind) {
	case GM_TYPE_UNKNOWN:
		return false;
	case GM_TYPE_PLAIN:
	case GM_TYPE_MEMBERS:
		return true;
	case GM_TYPE_DICT:
		return visit_dict(visit, object);
	case GM_TYPE_LIST:
		return visit_list(visit, object);
	case GM_TYPE_TUPLE:
		return gm_py_emit_array(visit, object + (uint64_t)l->tuple_items,
		        gm_py_size(python, object), GM_EDGE_ITEM, 0);
	case GM_TYPE_SET:
		return visit_set(visit, object);
	case GM_TYPE_CELL:
		return VISIT_FIELDS(visit, object, {l->cell_content, GM_EDGE_CELL, NULL});
	case GM_TYPE_FUNCTION:
		return visit_function(visit, object);
	case GM_TYPE_METHOD:
		return VISIT_FIELDS(visit, object, {l->method_self, GM_EDGE_BOUND, "__self__"},
		        {l->method_function, GM_EDGE_OTHER, "__func__"});
	case GM_TYPE_BUILTIN:
		return VISIT_FIELDS(visit, object, {l->builtin_self, GM_EDGE_BOUND, "__self__"},
		        {l->builtin_module, GM_EDGE_OTHER, "__module__"});
	case GM_TYPE_MODULE:
		VISIT_FIELDS(visit, object, {l->module_dict, GM_EDGE_OTHER, "__dict__"});
		/* what a C module keeps in its state is not known */
		return !gm_py_field(python, object, l->module_state);
	case GM_TYPE_TYPE:
		return visit_type(visit, object);
	case GM_TYPE_CODE:
		return visit_code(visit, object);
	case GM_TYPE_FRAME:
		return gm_py_visit_frame_object(visit, object);
	case GM_TYPE_GENERATOR:
		return gm_py_visit_generator(visit, object);
	case GM_TYPE_TRACEBACK:
		return VISIT_FIELDS(visit, object, {l->traceback_next, GM_EDGE_OTHER, "tb_next"},
		        {l->traceback_frame, GM_EDGE_OTHER, "tb_frame"});
	case GM_TYPE_EXCEPTION:
		return visit_exception(visit, object);
	case GM_TYPE_DEQUE:
		return visit_deque(visit, object);
	case GM_TYPE_PROPERTY:
		return VISIT_FIELDS(visit, object, {l->property_get, GM_EDGE_OTHER, "fget"},
		        {l->property_get + 8, GM_EDGE_OTHER, "fset"},
		        {l->property_get + 16, GM_EDGE_OTHER, "fdel"},
		        {l->property_get + 24, GM_EDGE_OTHER, "__doc__"},
		        {l->property_name, GM_EDGE_OTHER, "__name__"});
	case GM_TYPE_PARTIAL:
		return VISIT_FIELDS(visit, object, {l->partial_function, GM_EDGE_OTHER, "func"},
		        {l->partial_function + 8, GM_EDGE_OTHER, "args"},
		        {l->partial_function + 16, GM_EDGE_OTHER, "keywords"});
	case GM_TYPE_MAPPINGPROXY:
		return VISIT_FIELDS(
		        visit, object, {l->mappingproxy_mapping, GM_EDGE_OTHER, "mapping"});
	case GM_TYPE_WRAPPER:
		return VISIT_FIELDS(
		        visit, object, {l->wrapper_callable, GM_EDGE_OTHER, "__func__"});
	case GM_TYPE_SEQUENCE_ITERATOR:
		return VISIT_FIELDS(
		        visit, object, {l->iterator_sequence, GM_EDGE_OTHER, "sequence"});
	case GM_TYPE_WEAKREF: /* wr_object is no holder; wr_callback (Include/weakrefobject.h) is
	                         held */
		return VISIT_FIELDS(visit, object, {24, GM_EDGE_OTHER, "callback"});
	case GM_TYPE_FIELDS:
		return gm_py_visit_small(visit, object, type);
	}
	return false;
}

static bool inline_value(void *context, uint64_t key, uint64_t value)
{
	struct gm_visit *visit = context;
	_cleanup_free_ char *name = visit->names ? key_name(visit->python, key) : NULL;

	return emit(visit, value, GM_EDGE_ATTRIBUTE, name, -1);
}

/* Layouts whose fields are among tp_members too: they are visited once. */
static bool members_are_layout(enum gm_type_kind kind)
{
	return kind != GM_TYPE_UNKNOWN && kind != GM_TYPE_PLAIN && kind != GM_TYPE_MEMBERS &&
	       kind != GM_TYPE_DICT && kind != GM_TYPE_LIST && kind != GM_TYPE_TUPLE &&
	       kind != GM_TYPE_SET && kind != GM_TYPE_DEQUE && kind != GM_TYPE_EXCEPTION;
}

static void visit_members(struct gm_visit *visit, uint64_t object, const struct gm_type *type)
{
	for (unsigned depth = 0; type && depth < GM_MAX_TYPE_DEPTH; type = type->base, depth++) {
		if (!(type->flags & GM_TYPE_FLAG_HEAP) && members_are_layout(type->kind))
			continue;
		if (!strcmp(type->full_name, "BaseException") || type->kind == GM_TYPE_PARTIAL)
			continue;
		for (size_t i = 0; i < type->members.count; i++)
			gm_py_emit_field(visit, object, (int32_t)type->members.items[i].offset,
			        GM_EDGE_ATTRIBUTE, type->members.items[i].name);
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
	gm_py_inline_values(python, object, type, inline_value, &visit);
	/* a function's, a module's dict is one of its fields */
	if (type->kind != GM_TYPE_FUNCTION && type->kind != GM_TYPE_MODULE &&
	        type->kind != GM_TYPE_TYPE)
		emit(&visit, gm_py_instance_dict(python, object, type), GM_EDGE_OTHER, "__dict__",
		        -1);
	visit_members(&visit, object, type);
	if (type->flags & GM_TYPE_FLAG_HEAP)
		emit(&visit, type->address, GM_EDGE_TYPE, NULL, -1);
	return whole && !type->in_part;
}
