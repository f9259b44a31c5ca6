/*
 * The references of a type's objects at fixed offsets, computed once for each type: the fields of a
 * known layout, and the slots and members of its bases. References that depend on the object (a
 * dict's table, a generator's frame) are in references.c.
 */
#include <string.h>

#include "cpython/objects/references_small.h"
#include "cpython/objects/shape.h"

static bool add(struct gm_type *type, int32_t offset, enum gm_edge_kind kind, const char *name)
{
	struct gm_type_field field = {offset, kind, name};

	return offset == GM_NO_FIELD || gm_array_push(&type->fields, field);
}

static bool add_all(struct gm_type *type, const struct gm_type_field *fields, size_t count)
{
	bool added = true;

	for (size_t i = 0; i < count && added; i++)
		added = add(type, fields[i].offset, fields[i].kind, fields[i].name);
	return added;
}
#define ADD(type, ...)                                                \
	add_all(type, (const struct gm_type_field[]){__VA_ARGS__},    \
	        sizeof((const struct gm_type_field[]){__VA_ARGS__}) / \
	                sizeof(struct gm_type_field))

static bool add_function(struct gm_type *type, const struct gm_python_layout *l)
{
	return ADD(type, {l->function_closure, GM_EDGE_CLOSURE, "__closure__"},
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
	        {l->function_annotate, GM_EDGE_OTHER, "__annotate__"},
	        {l->function_builtins, GM_EDGE_OTHER, "__builtins__"},
	        {l->function_typeparams, GM_EDGE_OTHER, "__type_params__"});
}

static bool add_code(struct gm_type *type, const struct gm_python_layout *l)
{
	return ADD(type, {l->code_consts, GM_EDGE_OTHER, "co_consts"},
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

static bool add_layout(struct gm_type *type, const struct gm_python_layout *l)
{
	switch (type->kind) {
	case GM_TYPE_CELL:
		return ADD(type, {l->cell_content, GM_EDGE_CELL, NULL});
	case GM_TYPE_FUNCTION:
		return add_function(type, l);
	case GM_TYPE_METHOD:
		return ADD(type, {l->method_self, GM_EDGE_BOUND, "__self__"},
		        {l->method_function, GM_EDGE_OTHER, "__func__"});
	case GM_TYPE_BUILTIN:
		return ADD(type, {l->builtin_self, GM_EDGE_BOUND, "__self__"},
		        {l->builtin_module, GM_EDGE_OTHER, "__module__"});
	case GM_TYPE_MODULE:
		return ADD(type, {l->module_dict, GM_EDGE_OTHER, "__dict__"});
	case GM_TYPE_CODE:
		return add_code(type, l);
	case GM_TYPE_TRACEBACK:
		return ADD(type, {l->traceback_next, GM_EDGE_OTHER, "tb_next"},
		        {l->traceback_frame, GM_EDGE_OTHER, "tb_frame"});
	case GM_TYPE_EXCEPTION:
		return ADD(type, {l->exception_args, GM_EDGE_OTHER, "args"},
		        {l->exception_traceback, GM_EDGE_OTHER, "__traceback__"},
		        {l->exception_context, GM_EDGE_OTHER, "__context__"},
		        {l->exception_cause, GM_EDGE_OTHER, "__cause__"},
		        {l->exception_notes, GM_EDGE_OTHER, "__notes__"});
	case GM_TYPE_PROPERTY:
		return ADD(type, {l->property_get, GM_EDGE_OTHER, "fget"},
		        {l->property_get + 8, GM_EDGE_OTHER, "fset"},
		        {l->property_get + 16, GM_EDGE_OTHER, "fdel"},
		        {l->property_get + 24, GM_EDGE_OTHER, "__doc__"},
		        {l->property_name, GM_EDGE_OTHER, "__name__"});
	case GM_TYPE_PARTIAL:
		return ADD(type, {l->partial_function, GM_EDGE_OTHER, "func"},
		        {l->partial_function + 8, GM_EDGE_OTHER, "args"},
		        {l->partial_function + 16, GM_EDGE_OTHER, "keywords"});
	case GM_TYPE_MAPPINGPROXY:
		return ADD(type, {l->mappingproxy_mapping, GM_EDGE_OTHER, "mapping"});
	case GM_TYPE_WRAPPER:
		return ADD(type, {l->wrapper_callable, GM_EDGE_OTHER, "__func__"});
	case GM_TYPE_SEQUENCE_ITERATOR:
		return ADD(type, {l->iterator_sequence, GM_EDGE_OTHER, "sequence"});
	case GM_TYPE_WEAKREF: /* wr_object is not a holder; wr_callback (Include/weakrefobject.h) is
	                       */
		return ADD(type, {24, GM_EDGE_OTHER, "callback"});
	case GM_TYPE_FIELDS:
	case GM_TYPE_LRU:
	case GM_TYPE_NDARRAY:
		return gm_py_add_small(type, l->version);
	default:
		return true;
	}
}

/* Layouts whose fields are also among tp_members: they are visited once. */
static bool members_are_layout(enum gm_type_kind kind)
{
	return kind != GM_TYPE_UNKNOWN && kind != GM_TYPE_PLAIN && kind != GM_TYPE_MEMBERS &&
	       kind != GM_TYPE_DICT && kind != GM_TYPE_LIST && kind != GM_TYPE_TUPLE &&
	       kind != GM_TYPE_SET && kind != GM_TYPE_DEQUE && kind != GM_TYPE_EXCEPTION;
}

static bool add_members(struct gm_type *type)
{
	const struct gm_type *at = type;

	for (unsigned depth = 0; at && depth < GM_MAX_TYPE_DEPTH; at = at->base, depth++) {
		if (!(at->flags & GM_TYPE_FLAG_HEAP) && members_are_layout(at->kind))
			continue;
		if (!strcmp(at->full_name, "BaseException") || at->kind == GM_TYPE_PARTIAL)
			continue;
		for (size_t i = 0; i < at->members.count; i++)
			/* an instance's dict is visited as such (SimpleNamespace has it as a member
			 * too) */
			if (strcmp(at->members.items[i].name, "__dict__") != 0 &&
			        !add(type, (int32_t)at->members.items[i].offset, GM_EDGE_ATTRIBUTE,
			                at->members.items[i].name))
				return false;
	}
	return true;
}

uint64_t gm_py_item_count(const struct gm_type *type, uint64_t count)
{
	if (type->item_count >= 0)
		return (uint64_t)type->item_count;
	/* if an int counts them, all are within the object */
	uint64_t most = type->counted_at == GM_NO_FIELD
	                        ? INT32_MAX
	                        : (uint64_t)(type->basicsize - type->items) / 8;
	return count < most ? count : type->counted_at == GM_NO_FIELD ? 0 : most;
}

/* The beginning of the part whose layout is not known: after the last base that is completely
 * known. */
static int32_t guess_from(const struct gm_type *type)
{
	enum { MAX_GUESSED = 4000 };
	const struct gm_type *base = type;

	if ((!type->in_part && type->kind != GM_TYPE_UNKNOWN) || type->basicsize > MAX_GUESSED)
		return 0;
	while (base && (base->in_part || base->kind == GM_TYPE_UNKNOWN))
		base = base->base;
	return base && base->basicsize > 16 ? (int32_t)base->basicsize : 16;
}

bool gm_py_shape(struct gm_type *type, const struct gm_python_layout *layout)
{
	if (!add_layout(type, layout))
		return false;
	type->layout_fields = type->fields.count;
	if (!add_members(type))
		return false;
	type->guess_from = guess_from(type);
	type->atom = (type->kind == GM_TYPE_PLAIN && !type->in_part && !type->dictoffset &&
	                     !type->fields.count && !(type->flags & GM_TYPE_FLAG_MANAGED_DICT)) ||
	             type->kind == GM_TYPE_CODE;
	return true;
}
