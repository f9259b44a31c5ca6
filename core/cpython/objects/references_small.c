/*
 * Types with a few references at fixed offsets: iterators, views, descriptors, caches, contexts,
 * tasks. Offsets were compared with gc.get_referents() in each version.
 */
#include <string.h>

#include "cpython/objects/references_small.h"

struct small_field {
	int32_t offset;
	const char *name;
};

enum { FIELDS = 8, BY_SIZE = -1, BY_WORD = -2 };

/* `items`: pointers from there on. Their number is `item_count`, ob_size (BY_SIZE) or the int at
 * `counted_at` (BY_WORD). */
static const struct small_type {
	const char *type;
	struct small_field fields[FIELDS];
	int first, last; /* versions, 0: all */
	int32_t items, item_count, counted_at;
} small_types[] = {
        /* Objects/dictobject.c: _PyDictViewObject.dv_dict, dictiterobject.di_dict, di_result */
        {"dict_keys", {{16, "mapping"}}},
        {"dict_values", {{16, "mapping"}}},
        {"dict_items", {{16, "mapping"}}},
        {"dict_keyiterator", {{16, "dict"}}},
        {"dict_valueiterator", {{16, "dict"}}},
        {"dict_itemiterator", {{16, "dict"}, {40, "result"}}},
        /* Objects/setobject.c: setiterobject.si_set */
        {"set_iterator", {{16, "set"}}},
        /* Objects/enumobject.c: enumobject, reversedobject */
        {"enumerate", {{24, "iterator"}, {32, "result"}, {40, "index"}}},
        {"reversed", {{24, "sequence"}}},
        /* Python/bltinmodule.c: zipobject, mapobject, filterobject */
        {"zip", {{24, "iterators"}, {32, "result"}}},
        {"map", {{16, "iterators"}, {24, "function"}}},
        {"filter", {{16, "function"}, {24, "iterator"}}},
        /* Objects/iterobject.c: calliterobject */
        {"callable_iterator", {{16, "callable"}, {24, "sentinel"}}},
        /* Objects/genericaliasobject.c, unionobject.c */
        {"types.GenericAlias", {{16, "origin"}, {24, "args"}, {32, "parameters"}}},
        {"types.UnionType", {{16, "args"}, {24, "parameters"}}, 0, 0x030d},
        {"typing.Union",
                {{16, "args"}, {24, "hashable args"}, {32, "other args"}, {40, "parameters"}},
                0x030e},
        /* Objects/sentinelobject.c */
        {"sentinel", {{16, "name"}, {24, "module"}}, 0x030f},
        /* Include/descrobject.h: PyDescrObject; Objects/descrobject.c: wrapperobject */
        {"wrapper_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}}},
        {"method_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}}},
        {"classmethod_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}}},
        {"member_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}}},
        {"getset_descriptor", {{16, "__objclass__"}, {24, "__name__"}, {32, "__qualname__"}}},
        {"method-wrapper", {{16, "descriptor"}, {24, "__self__"}}},
        /* Include/cpython/methodobject.h: PyCMethodObject */
        {"builtin_method", {{24, "__self__"}, {32, "__module__"}, {56, "class"}}},
        /* Objects/genobject.c: PyCoroWrapper, PyAsyncGenASend, PyAsyncGenAThrow */
        {"coroutine_wrapper", {{16, "coroutine"}}},
        {"async_generator_asend", {{16, "generator"}, {24, "value"}}},
        {"async_generator_athrow", {{16, "generator"}, {24, "arguments"}}},
        /* Modules/_collectionsmodule.c: _tuplegetterobject */
        {"_collections._tuplegetter", {{24, "__doc__"}}},
        {"collections._tuplegetter", {{24, "__doc__"}}},
        /* Modules/_functoolsmodule.c: lru_cache_object, lru_list_elem */
        {"functools._lru_cache_wrapper",
                {{72, "cache"}, {88, "__wrapped__"}, {112, "result class"}}, 0, 0x0309},
        {"functools._lru_cache_wrapper",
                {{72, "cache"}, {88, "__wrapped__"}, {112, "mark"}, {120, "link class"},
                        {128, "result class"}},
                0x030a},
        {"functools._lru_list_elem", {{40, "key"}, {48, "result"}}},
        {"functools.KeyWrapper", {{16, "function"}, {24, "object"}}},
        /* Modules/_operator.c: itemgetterobject, attrgetterobject, methodcallerobject */
        {"operator.itemgetter", {{24, "item"}}},
        {"operator.attrgetter", {{24, "attributes"}}},
        {"operator.methodcaller", {{16, "name"}, {24, "arguments"}, {32, "keywords"}}},
        {"operator.methodcaller", {{40, "all arguments"}, {48, "keywords' names"}}, 0x030e},
        /* Modules/_threadmodule.c: localobject, localdummyobject; lockobject and rlockobject own
         * nothing. Up to 3.12 the dummy has a thread's values, and the thread's dict holds the
         * dummy; 3.13 has them in a dict of the object */
        {"_thread._local",
                {{16, "key"}, {24, "arguments"}, {32, "keywords"}, {48, "dummies"},
                        {56, "callback"}},
                0, 0x030c},
        {"_thread._local",
                {{16, "arguments"}, {24, "keywords"}, {40, "values by thread"}, {48, "threads"}},
                0x030d},
        {"_thread.lock", {{0}}},
        {"_thread.RLock", {{0}}},
        {"_thread._localdummy", {{0}}, 0, 0x030c}, /* localdict is borrowed */
        /* Python/context.c, hamt.c (Include/internal/pycore_context.h, pycore_hamt.h). A variable's
         * cached value is borrowed. */
        {"Context", {{16, "previous context"}, {24, "variables"}}},
        {"_contextvars.Context", {{16, "previous context"}, {24, "variables"}}},
        {"ContextVar", {{16, "name"}, {24, "default"}}},
        {"_contextvars.ContextVar", {{16, "name"}, {24, "default"}}},
        {"Token", {{16, "context"}, {24, "variable"}, {32, "old value"}}},
        {"_contextvars.Token", {{16, "context"}, {24, "variable"}, {32, "old value"}}},
        {"hamt", {{16, "root"}}},
        {"hamt_bitmap_node", {{0}}, 0, 0, 32, BY_SIZE, 0},
        {"hamt_collision_node", {{0}}, 0, 0, 32, BY_SIZE, 0},
        {"hamt_array_node", {{0}}, 0, 0, 16, 32, 0},
        /* Modules/_asynciomodule.c: FutureObj_HEAD, TaskObj */
        {"_asyncio.Future",
                {{16, "loop"}, {24, "callback"}, {32, "context"}, {40, "callbacks"},
                        {48, "exception"}, {56, "result"}, {64, "source_traceback"},
                        {72, "cancel_message"}},
                0, 0x0309},
        {"_asyncio.Future",
                {{16, "loop"}, {24, "callback"}, {32, "context"}, {40, "callbacks"},
                        {48, "exception"}, {56, "exception_traceback"}, {64, "result"},
                        {72, "source_traceback"}},
                0x030a},
        {"_asyncio.Future", {{80, "cancel_message"}}, 0x030a},
        {"_asyncio.Task", {{144, "waits for"}, {152, "coroutine"}, {160, "name"}, {168, "context"}},
                0, 0x0309},
        {"_asyncio.Task", {{152, "waits for"}, {160, "coroutine"}, {168, "name"}, {176, "context"}},
                0x030a, 0x030a},
        {"_asyncio.Task", {{128, "waits for"}, {136, "coroutine"}, {144, "name"}, {152, "context"}},
                0x030b, 0x030c},
        {"_asyncio.Task", {{112, "waits for"}, {120, "coroutine"}, {128, "name"}, {136, "context"}},
                0x030d, 0x030d},
        {"_asyncio.Future", {{88, "cancelled exception"}, {96, "awaited by"}}, 0x030e},
        {"_asyncio.Task", {{120, "waits for"}, {128, "coroutine"}, {136, "name"}, {144, "context"}},
                0x030e},
        {"_asyncio.FutureIter", {{16, "future"}}},
        {"TaskWakeupMethWrapper", {{16, "task"}}, 0, 0x0309},
        {"TaskStepMethWrapper", {{16, "task"}, {24, "argument"}}},
        {"_asyncio.TaskStepMethWrapper", {{16, "task"}, {24, "argument"}}},
        {"anext_awaitable", {{16, "awaited"}, {24, "default"}}},
        /* Objects/memoryobject.c: PyMemoryViewObject.mbuf, _PyManagedBufferObject.master.obj */
        {"memoryview", {{24, "buffer"}}},
        {"managedbuffer", {{40, "exporter"}}},
        {"memory_iterator", {{24, "memoryview"}}},
        {"array.arrayiterator", {{24, "array"}}},
        /* Modules/_ctypes/ctypes.h: PyCFuncPtrObject; the references of all ctypes objects are in
         * their members */
        {"_ctypes.CFuncPtr",
                {{96, "thunk"}, {104, "callable"}, {112, "converters"}, {120, "argtypes"},
                        {128, "restype"}},
                0, 0x030b},
        /* Modules/_queuemodule.c: simplequeueobject.lst; 3.13 has a ring of its own (references.c)
         */
        {"_queue.SimpleQueue", {{32, "items"}}, 0, 0x030c},
        /* Modules/_io */
        {"_io.BufferedReader", {{16, "raw"}}},
        {"_io.BufferedWriter", {{16, "raw"}}},
        {"_io.BufferedRandom", {{16, "raw"}}},
        {"_io.BufferedRWPair", {{16, "reader"}, {24, "writer"}}},
        {"_io.BytesIO", {{16, "bytes"}}},
        /* Modules/_collectionsmodule.c: dequeiterobject; Objects/odictobject.c: odictiterobject */
        {"_collections._deque_iterator", {{32, "deque"}}},
        {"_collections._deque_reverse_iterator", {{32, "deque"}}},
        {"collections._deque_iterator", {{32, "deque"}}},
        {"collections._deque_reverse_iterator", {{32, "deque"}}},
        {"odict_iterator", {{24, "dict"}, {48, "key"}, {56, "result"}}},
        {"dict_reversekeyiterator", {{16, "dict"}}},
        {"dict_reversevalueiterator", {{16, "dict"}}},
        {"dict_reverseitemiterator", {{16, "dict"}, {40, "result"}}},
        /* numpy/core/include/numpy/ndarraytypes.h: PyArrayObject_fields, of numpy 1 and 2 */
        {"numpy.ndarray", {{48, "base"}, {56, "dtype"}}},
        /* Modules/itertoolsmodule.c */
        {"itertools.chain", {{16, "source"}, {24, "active"}}},
        {"itertools.islice", {{16, "iterator"}}},
        {"itertools.cycle", {{16, "iterator"}, {24, "saved"}}},
        {"itertools.repeat", {{16, "element"}}},
        {"itertools.starmap", {{16, "function"}, {24, "iterator"}}},
        {"itertools.takewhile", {{16, "function"}, {24, "iterator"}}},
        {"itertools.dropwhile", {{16, "function"}, {24, "iterator"}}},
        {"itertools.compress", {{16, "data"}, {24, "selectors"}}},
        {"itertools.accumulate",
                {{16, "total"}, {24, "iterator"}, {32, "function"}, {40, "initial"}}},
        {"itertools.count", {{24, "count"}, {32, "step"}}},
        {"itertools._tee", {{16, "data"}}},
        {"itertools._tee_dataobject", {{16, "iterator"}, {32, "next"}}, 0, 0, 40, BY_WORD, 24},
        {"itertools.groupby", {{16, "iterator"}, {24, "function"}, {32, "target key"},
                                      {40, "current key"}, {48, "current value"}}},
        {"itertools._grouper", {{16, "groupby"}, {24, "target key"}}},
        {"itertools.product", {{16, "pools"}, {32, "result"}}},
        {"itertools.combinations", {{16, "pool"}, {32, "result"}}},
        {"itertools.combinations_with_replacement", {{16, "pool"}, {32, "result"}}},
        {"itertools.permutations", {{16, "pool"}, {40, "result"}}},
        {"itertools.zip_longest", {{32, "iterators"}, {40, "result"}, {48, "fill value"}}},
        {"itertools.filterfalse", {{16, "function"}, {24, "iterator"}}},
        {"itertools.pairwise", {{16, "iterator"}, {24, "old"}}, 0, 0x030c},
        {"itertools.pairwise", {{16, "iterator"}, {24, "old"}, {32, "result"}}, 0x030d},
        {"itertools.batched", {{16, "iterator"}}},
};

static bool is_of(const struct small_type *small, int version)
{
	return (!small->first || version >= small->first) &&
	       (!small->last || version <= small->last);
}

bool gm_py_has_small_layout(const char *type_name, int version)
{
	for (size_t i = 0; i < sizeof(small_types) / sizeof(small_types[0]); i++) {
		if (!strcmp(type_name, small_types[i].type) && is_of(&small_types[i], version))
			return true;
	}
	return false;
}

static bool add_small(struct gm_type *type, const struct small_type *small)
{
	for (int i = 0; i < FIELDS && small->fields[i].name; i++) {
		const char *name = small->fields[i].name;
		struct gm_type_field field = {small->fields[i].offset,
		        strcmp(name, "__self__") ? GM_EDGE_OTHER : GM_EDGE_BOUND, name};
		if (!gm_array_push(&type->fields, field))
			return false;
	}
	if (small->items) {
		type->items = small->items;
		type->item_count = small->item_count;
		type->counted_at = small->item_count == BY_WORD ? small->counted_at : GM_NO_FIELD;
	}
	return true;
}

/* A task is a future too: fields of all bases. */
bool gm_py_add_small(struct gm_type *type, int version)
{
	for (const struct gm_type *base = type; base; base = base->base) {
		for (size_t i = 0; i < sizeof(small_types) / sizeof(small_types[0]); i++) {
			if (!strcmp(base->full_name, small_types[i].type) &&
			        is_of(&small_types[i], version) &&
			        !add_small(type, &small_types[i]))
				return false;
		}
	}
	return true;
}

bool gm_python_capsule(struct gm_python *python, uint64_t capsule, uint64_t *ret_pointer,
        char *ret_name, size_t size)
{
	/* Objects/capsule.c (3.9 to 3.15): PyCapsule.pointer, .name */
	enum { POINTER = 16, NAME = 24 };
	uint64_t name;
	if (!gm_py_u64(python, capsule + POINTER, ret_pointer) ||
	        !gm_py_u64(python, capsule + NAME, &name) || !name)
		return false;
	size_t got = gm_image_read_some(python->image, name, ret_name, size - 1);
	ret_name[got] = 0;
	return got > 0;
}
