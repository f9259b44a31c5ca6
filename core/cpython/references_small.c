/*
 * Types with a few references at fixed places: iterators, views, descriptors, caches.
 */
#include <string.h>

#include "cpython/references.h"

struct small_field {
	int32_t offset;
	const char *name;
};

/* Iterators, views, descriptors and caches; the same offsets in 3.9 to 3.13. */
static const struct small_type {
	const char *type;
	struct small_field fields[5];
	bool in_part; /* it holds more: objects of its module */
} small_types[] = {
        /* Objects/dictobject.c: _PyDictViewObject.dv_dict, dictiterobject.di_dict, di_result */
        {"dict_keys", {{16, "mapping"}}, false},
        {"dict_values", {{16, "mapping"}}, false},
        {"dict_items", {{16, "mapping"}}, false},
        {"dict_keyiterator", {{16, "dict"}}, false},
        {"dict_valueiterator", {{16, "dict"}}, false},
        {"dict_itemiterator", {{16, "dict"}, {40, "result"}}, false},
        /* Objects/setobject.c: setiterobject.si_set */
        {"set_iterator", {{16, "set"}}, false},
        /* Objects/enumobject.c: enumobject, reversedobject */
        {"enumerate", {{24, "iterator"}, {32, "result"}, {40, "index"}}, false},
        {"reversed", {{24, "sequence"}}, false},
        /* Python/bltinmodule.c: zipobject, mapobject, filterobject */
        {"zip", {{24, "iterators"}, {32, "result"}}, false},
        {"map", {{16, "iterators"}, {24, "function"}}, false},
        {"filter", {{16, "function"}, {24, "iterator"}}, false},
        /* Objects/iterobject.c: calliterobject */
        {"callable_iterator", {{16, "callable"}, {24, "sentinel"}}, false},
        /* Objects/genericaliasobject.c, unionobject.c */
        {"types.GenericAlias", {{16, "origin"}, {24, "args"}, {32, "parameters"}}, false},
        {"types.UnionType", {{16, "args"}, {24, "parameters"}}, false},
        /* Include/descrobject.h: PyDescrObject; Objects/descrobject.c: wrapperobject */
        {"wrapper_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}},
                false},
        {"method_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}},
                false},
        {"classmethod_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}},
                false},
        {"member_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}},
                false},
        {"getset_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}},
                false},
        {"method-wrapper", {{16, "descriptor"}, {24, "__self__"}}, false},
        /* Include/cpython/methodobject.h: PyCMethodObject */
        {"builtin_method", {{24, "__self__"}, {32, "__module__"}, {56, "class"}}, false},
        /* Objects/genobject.c: PyCoroWrapper, PyAsyncGenASend, PyAsyncGenAThrow */
        {"coroutine_wrapper", {{16, "coroutine"}}, false},
        {"async_generator_asend", {{16, "generator"}, {24, "value"}}, false},
        {"async_generator_athrow", {{16, "generator"}, {24, "arguments"}}, false},
        /* Modules/_collectionsmodule.c: _tuplegetterobject */
        {"_collections._tuplegetter", {{24, "__doc__"}}, false},
        {"collections._tuplegetter", {{24, "__doc__"}}, false},
        /* Modules/_functoolsmodule.c: lru_cache_object, lru_list_elem */
        {"functools._lru_cache_wrapper", {{72, "cache"}, {88, "__wrapped__"}, {112, "mark"}}, true},
        {"functools._lru_list_elem", {{40, "key"}, {48, "result"}}, false},
        /* Modules/_threadmodule.c: localobject, localdummyobject (3.13 keeps more) */
        {"_thread._local", {{16, "key"}, {24, "arguments"}, {32, "keywords"}}, true},
        {"_thread._localdummy", {{16, "__dict__"}}, false},
        /* Modules/itertoolsmodule.c */
        {"itertools.chain", {{16, "source"}, {24, "active"}}, false},
        {"itertools.islice", {{16, "iterator"}}, false},
        {"itertools.cycle", {{16, "iterator"}, {24, "saved"}}, false},
        {"itertools.repeat", {{16, "element"}}, false},
        {"itertools.starmap", {{16, "function"}, {24, "iterator"}}, false},
        {"itertools.takewhile", {{16, "function"}, {24, "iterator"}}, false},
        {"itertools.dropwhile", {{16, "function"}, {24, "iterator"}}, false},
        {"itertools.compress", {{16, "data"}, {24, "selectors"}}, false},
        {"itertools.accumulate",
                {{16, "total"}, {24, "iterator"}, {32, "function"}, {40, "initial"}}, false},
        {"itertools.count", {{24, "count"}, {32, "step"}}, false},
};

static const struct small_type *find_small(const struct gm_type *type)
{
	for (; type; type = type->base) {
		for (size_t i = 0; i < sizeof(small_types) / sizeof(small_types[0]); i++) {
			if (!strcmp(type->full_name, small_types[i].type))
				return &small_types[i];
		}
	}
	return NULL;
}

bool gm_py_has_small_layout(const char *type_name)
{
	for (size_t i = 0; i < sizeof(small_types) / sizeof(small_types[0]); i++) {
		if (!strcmp(type_name, small_types[i].type))
			return true;
	}
	return false;
}

bool gm_py_add_small(struct gm_type *type)
{
	const struct small_type *small = find_small(type);

	for (int i = 0; small && i < 5 && small->fields[i].name; i++) {
		const char *name = small->fields[i].name;
		struct gm_type_field field = {small->fields[i].offset,
		        strcmp(name, "__self__") ? GM_EDGE_OTHER : GM_EDGE_BOUND, name};
		if (!gm_array_push(&type->fields, field))
			return false;
	}
	type->in_part |= small && small->in_part;
	return true;
}
