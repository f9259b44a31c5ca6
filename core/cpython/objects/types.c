/*
 * Type objects: recognized in memory, named, and mapped to known layouts.
 *
 * A pointer is accepted as a type if it is ready, has a printable name, and the chain of its types
 * ends in PyType_Type, which is its own type. Facts are copied once and checked against the target
 * at each use, because classes may be freed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cpython/objects/shape.h"

/* Layouts by tp_name, of types that CPython defines in C. Subclasses get the layout of their base.
 * */
static const struct {
	const char *name;
	enum gm_type_kind kind;
} known[] = {
        {"object", GM_TYPE_PLAIN},
        {"str", GM_TYPE_PLAIN},
        {"bytes", GM_TYPE_PLAIN},
        {"int", GM_TYPE_PLAIN},
        {"bool", GM_TYPE_PLAIN},
        {"float", GM_TYPE_PLAIN},
        {"complex", GM_TYPE_PLAIN},
        {"bytearray", GM_TYPE_PLAIN},
        {"NoneType", GM_TYPE_PLAIN},
        {"range", GM_TYPE_MEMBERS},
        {"ellipsis", GM_TYPE_PLAIN},
        {"NotImplementedType", GM_TYPE_PLAIN},
        {"PyCapsule", GM_TYPE_UNKNOWN},
        {"dict", GM_TYPE_DICT},
        {"frozendict", GM_TYPE_DICT}, /* 3.15: PyFrozenDictObject, a dict and its hash */
        {"list", GM_TYPE_LIST},
        {"tuple", GM_TYPE_TUPLE},
        {"set", GM_TYPE_SET},
        {"frozenset", GM_TYPE_SET},
        {"cell", GM_TYPE_CELL},
        {"function", GM_TYPE_FUNCTION},
        {"method", GM_TYPE_METHOD},
        {"builtin_function_or_method", GM_TYPE_BUILTIN},
        {"module", GM_TYPE_MODULE},
        {"type", GM_TYPE_TYPE},
        {"code", GM_TYPE_CODE},
        {"frame", GM_TYPE_FRAME},
        {"generator", GM_TYPE_GENERATOR},
        {"coroutine", GM_TYPE_GENERATOR},
        {"async_generator", GM_TYPE_GENERATOR},
        {"traceback", GM_TYPE_TRACEBACK},
        {"BaseException", GM_TYPE_EXCEPTION},
        {"collections.deque", GM_TYPE_DEQUE},
        {"_queue.SimpleQueue", GM_TYPE_RING}, /* 3.13; before, a few fields */
        {"numpy.ndarray", GM_TYPE_NDARRAY},
        {"functools._lru_cache_wrapper", GM_TYPE_LRU},
        {"property", GM_TYPE_PROPERTY},
        {"functools.partial", GM_TYPE_PARTIAL},
        {"mappingproxy", GM_TYPE_MAPPINGPROXY},
        {"staticmethod", GM_TYPE_WRAPPER},
        {"classmethod", GM_TYPE_WRAPPER},
        {"list_iterator", GM_TYPE_SEQUENCE_ITERATOR},
        {"tuple_iterator", GM_TYPE_SEQUENCE_ITERATOR},
        {"iterator", GM_TYPE_SEQUENCE_ITERATOR},
        {"list_reverseiterator", GM_TYPE_SEQUENCE_ITERATOR},
        {"weakref", GM_TYPE_WEAKREF},
        {"weakref.ReferenceType", GM_TYPE_WEAKREF},
        {"weakproxy", GM_TYPE_WEAKREF},
        {"weakref.ProxyType", GM_TYPE_WEAKREF},
        {"weakcallableproxy", GM_TYPE_WEAKREF},
        {"weakref.CallableProxyType", GM_TYPE_WEAKREF},
        {"slice", GM_TYPE_MEMBERS},
        {"super", GM_TYPE_MEMBERS},
        {"types.SimpleNamespace", GM_TYPE_PLAIN},
        {"collections.defaultdict", GM_TYPE_DICT},
        {"collections.OrderedDict", GM_TYPE_DICT},
};

static size_t bucket(uint64_t address)
{
	return (size_t)(gm_hash_mix(address) & (GM_TYPE_BUCKETS - 1));
}

static void destroy(struct gm_type *type)
{
	free(type->full_name);
	for (size_t i = 0; i < type->members.count; i++)
		free(type->members.items[i].name);
	gm_array_deinit(&type->members);
	gm_array_deinit(&type->fields);
	free(type);
}

void gm_py_types_destroy(struct gm_python *python)
{
	for (size_t i = 0; i < GM_TYPE_BUCKETS; i++) {
		for (struct gm_type *type = python->types[i], *next; type; type = next) {
			next = type->next;
			destroy(type);
		}
		python->types[i] = NULL;
	}
}

/* The head of a PyTypeObject, as far as it is read. */
struct head {
	uint64_t metatype, name, members, base;
	int64_t basicsize, itemsize, dictoffset, weaklistoffset;
	uint64_t flags;
};

/* 3.9 creates objects of a type that it never passes to PyType_Ready(): the links of a
 * functools.lru_cache (Modules/_functoolsmodule.c). */
static bool is_never_readied(struct gm_python *python, const struct head *head)
{
	static const char link[] = "functools._lru_list_elem";
	char name[sizeof(link)];

	return python->version < 0x030a && head->metatype == python->type_type && !head->base &&
	       gm_image_try_read(python->image, head->name, name, sizeof(name)) &&
	       !memcmp(name, link, sizeof(link));
}

static bool read_head(struct gm_python *python, uint64_t address, struct head *ret)
{
	const struct gm_python_layout *layout = &python->layout;
	uint8_t bytes[512];

	if (!address || address & 7 || (size_t)layout->type_size > sizeof(bytes) ||
	        !gm_image_try_read(python->image, address, bytes, (size_t)layout->type_size))
		return false;
	ret->metatype = gm_u64_at(bytes, layout->object_type);
	ret->name = gm_u64_at(bytes, layout->type_name);
	ret->members = gm_u64_at(bytes, layout->type_members);
	ret->base = gm_u64_at(bytes, layout->type_base);
	ret->basicsize = (int64_t)gm_u64_at(bytes, layout->type_basicsize);
	ret->itemsize = (int64_t)gm_u64_at(bytes, layout->type_itemsize);
	ret->dictoffset = (int64_t)gm_u64_at(bytes, layout->type_dictoffset);
	ret->weaklistoffset = (int64_t)gm_u64_at(bytes, layout->type_weaklistoffset);
	ret->flags = gm_u64_at(bytes, layout->type_flags);
	return (ret->flags & GM_TYPE_FLAG_READY || is_never_readied(python, ret)) &&
	       ret->basicsize >= 16 && ret->basicsize < 1 << 24 && ret->itemsize >= 0 &&
	       ret->itemsize < 1 << 24 && ret->metatype;
}

/* Flags that stay while a type lives; others are caches (Py_TPFLAGS_VALID_VERSION_TAG ...). */
static uint64_t lasting_flags(uint64_t flags)
{
	return flags & (GM_TYPE_FLAG_HEAP | GM_TYPE_FLAG_MANAGED_DICT | GM_TYPE_FLAG_INLINE_VALUES |
	                       UINT64_C(0xff000000));
}

static bool same(const struct gm_type *type, const struct head *head)
{
	return type->metatype == head->metatype && type->name_address == head->name &&
	       type->base_address == head->base && type->members_address == head->members &&
	       type->basicsize == head->basicsize && type->dictoffset == head->dictoffset &&
	       lasting_flags(type->flags) == lasting_flags(head->flags);
}

/* Cut at the last whole character, if there are more bytes. */
static char *cut_text(const char *text, size_t length)
{
	static const char rest[] = "...";
	size_t whole = 0, step;
	while (whole < length && (step = gm_utf8_length(text + whole, length - whole)))
		whole += step;
	char *copy = malloc(whole + sizeof(rest));
	if (copy) {
		memcpy(copy, text, whole);
		memcpy(copy + whole, rest, sizeof(rest));
	}
	return copy;
}

/*
 * A name. Names in C's static memory are short and printable; other bytes are no name, and what has
 * them is no type. A program gives its own classes and slots any name: `type("a\nb", (), {})`.
 */
static char *read_text(struct gm_python *python, uint64_t address, bool any)
{
	char text[256];
	size_t size = address ? gm_image_read_some(python->image, address, text, sizeof(text)) : 0;
	if (size == 0)
		return NULL;
	size_t length = strnlen(text, size);

	if (any)
		return length == size ? cut_text(text, length) : strndup(text, length);
	if (!length || length == size)
		return NULL;
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return NULL;
	}
	return strndup(text, length);
}

/* tp_members that are references: T_OBJECT 6, T_OBJECT_EX 16 (Include/structmember.h). */
static bool read_members(struct gm_python *python, struct gm_type *type)
{
	enum { MAX_MEMBERS = 4096, T_OBJECT = 6, T_OBJECT_EX = 16 };
	const struct gm_python_layout *layout = &python->layout;
	uint8_t row[64];

	for (uint64_t i = 0; type->members_address && i < MAX_MEMBERS; i++) {
		uint64_t address = type->members_address + i * (uint64_t)layout->member_size;
		if (!gm_image_try_read(python->image, address, row, (size_t)layout->member_size) ||
		        !gm_u64_at(row, layout->member_name))
			return true;
		int32_t kind = gm_i32_at(row, layout->member_type);
		int64_t offset = (int64_t)gm_u64_at(row, layout->member_offset);
		if ((kind != T_OBJECT && kind != T_OBJECT_EX) || offset < 16 ||
		        offset >= type->basicsize)
			continue;
		struct gm_type_member member = {
		        read_text(python, gm_u64_at(row, layout->member_name),
		                type->flags & GM_TYPE_FLAG_HEAP),
		        offset};
		if (!member.name)
			continue;
		if (!gm_array_push(&type->members, member)) {
			free(member.name);
			return false;
		}
	}
	return true;
}

/* Layouts of C types that became heap types in some version (3.10: functools.partial, 3.12:
 * deque). */
static bool may_be_heap(enum gm_type_kind kind)
{
	return kind == GM_TYPE_PARTIAL || kind == GM_TYPE_DEQUE || kind == GM_TYPE_DICT ||
	       kind == GM_TYPE_PLAIN || kind == GM_TYPE_RING || kind == GM_TYPE_LRU;
}

static void set_kind(struct gm_type *type, int version)
{
	const struct gm_type *base = type->base;
	int64_t words = (int64_t)type->members.count;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (known[i].kind == GM_TYPE_RING && version < 0x030d)
			continue;
		if (strcmp(type->full_name, known[i].name) != 0 ||
		        (type->flags & GM_TYPE_FLAG_HEAP && !may_be_heap(known[i].kind)))
			continue;
		type->kind = known[i].kind;
		type->ordered = !strcmp(known[i].name, "collections.OrderedDict");
		return;
	}
	if (gm_py_has_small_layout(type->full_name, version)) {
		type->kind = GM_TYPE_FIELDS;
		return;
	}
	if (!base)
		return;
	type->kind = base->kind;
	type->ordered = base->ordered;
	/* A class statement adds slots, a dict and a list of weak references to its base's layout,
	 * and nothing else. Anything else that a C type adds is not known; further fields of
	 * exceptions are all in tp_members (Objects/exceptions.c). */
	words += type->dictoffset != 0 && base->dictoffset == 0;
	words += type->weaklistoffset != 0 && base->weaklistoffset == 0;
	type->in_part = base->in_part || (type->basicsize > base->basicsize + 8 * words &&
	                                         base->kind != GM_TYPE_EXCEPTION);
}

static struct gm_type *type_at(struct gm_python *python, uint64_t address, unsigned depth);

static bool is_metatype(struct gm_python *python, uint64_t address, unsigned depth)
{
	const struct gm_type *type;

	if (address == python->type_type)
		return true;
	type = type_at(python, address, depth + 1);
	return type && type->flags & GM_TYPE_FLAG_TYPE;
}

static bool has_several_bases(struct gm_python *python, uint64_t type)
{
	uint64_t tuple, bases[2];

	return gm_py_u64(python, type + (uint64_t)python->layout.type_bases, &tuple) && tuple &&
	       gm_py_tuple(python, tuple, bases, 2) == 2;
}

static struct gm_type *copy(
        struct gm_python *python, uint64_t address, const struct head *head, unsigned depth)
{
	struct gm_type *type;
	struct gm_type *base = NULL;
	const char *dot;

	if (python->type_count >= GM_MAX_TYPES || !is_metatype(python, head->metatype, depth))
		return NULL;
	if (head->base) {
		base = type_at(python, head->base, depth + 1);
		if (!base)
			return NULL;
	}
	type = calloc(1, sizeof(*type));
	if (!type)
		return NULL;
	*type = (struct gm_type){
	        .address = address,
	        .metatype = head->metatype,
	        .name_address = head->name,
	        .base_address = head->base,
	        .members_address = head->members,
	        .basicsize = head->basicsize,
	        .itemsize = head->itemsize,
	        .dictoffset = head->dictoffset,
	        .weaklistoffset = head->weaklistoffset,
	        .flags = head->flags,
	        .base = base,
	};
	type->full_name = read_text(python, head->name, type->flags & GM_TYPE_FLAG_HEAP);
	if (!type->full_name || !read_members(python, type)) {
		destroy(type);
		return NULL;
	}
	dot = strrchr(type->full_name, '.');
	type->name = dot && dot[1] ? dot + 1 : type->full_name;
	type->several_bases = (base && base->several_bases) || has_several_bases(python, address);
	set_kind(type, python->version);
	if (!gm_py_shape(type, &python->layout)) {
		destroy(type);
		return NULL;
	}
	/* damaged types may all claim the same thousands of members, and pass them on to others */
	size_t fields = type->members.count + type->fields.count;
	if (python->type_fields + fields > GM_MAX_TYPE_FIELDS) {
		destroy(type);
		return NULL;
	}
	python->type_fields += (uint32_t)fields;
	if (type->flags & GM_TYPE_FLAG_HEAP)
		type->cached_keys =
		        gm_py_field(python, address, python->layout.heaptype_cached_keys);
	type->next = python->types[bucket(address)];
	python->types[bucket(address)] = type;
	python->type_count++;
	return type;
}

static struct gm_type *type_at(struct gm_python *python, uint64_t address, unsigned depth)
{
	struct gm_type *type = python->types[bucket(address)];
	struct head head;

	if (depth > GM_MAX_TYPE_DEPTH || !read_head(python, address, &head))
		return NULL;
	while (type && type->address != address)
		type = type->next;
	return type && same(type, &head) ? type : copy(python, address, &head, depth);
}

struct gm_type *gm_py_type(struct gm_python *python, uint64_t address)
{
	return type_at(python, address, 0);
}

struct gm_type *gm_py_type_of(struct gm_python *python, uint64_t object)
{
	uint64_t address;

	if (!object || object & 7 ||
	        !gm_py_u64(python, object + (uint64_t)python->layout.object_type, &address))
		return NULL;
	return type_at(python, address, 0);
}

bool gm_python_type_name(struct gm_python *python, uint64_t object, const char **ret_name)
{
	const struct gm_type *type = gm_py_type_of(python, object);
	uint64_t count;

	if (!type || !gm_python_refcount(python, object, &count) ||
	        (count > UINT64_C(1) << 40 && count != UINT64_MAX))
		return false;
	*ret_name = type->name;
	return true;
}

static bool is_named(const struct gm_type *type, const char *name)
{
	return !strcmp(type->full_name, name) || !strcmp(type->name, name);
}

bool gm_python_is_instance(struct gm_python *python, uint64_t object, const char *type_name)
{
	const struct gm_type *own = gm_py_type_of(python, object);
	uint64_t order[GM_MRO_MAX], tuple;

	for (const struct gm_type *type = own; type; type = type->base)
		if (is_named(type, type_name))
			return true;
	if (!own || !own->several_bases ||
	        !gm_py_u64(python, own->address + (uint64_t)python->layout.type_mro, &tuple))
		return false;
	size_t count = gm_py_tuple(python, tuple, order, GM_MRO_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct gm_type *type = gm_py_type(python, order[i]);
		if (type && is_named(type, type_name))
			return true;
	}
	return false;
}

size_t gm_python_size(struct gm_python *python, uint64_t object, size_t *ret_own)
{
	const struct gm_type *type = gm_py_type_of(python, object);
	if (type && ret_own && type->kind == GM_TYPE_MODULE)
		*ret_own =
		        (size_t)python->layout.module_state; /* the first that is not a reference */
	else if (type && ret_own)
		*ret_own = gm_python_is_instance(python, object, "_ctypes._CData")
		                   ? 0
		                   : (size_t)type->guess_from;
	return type ? (size_t)type->basicsize : 0;
}

bool gm_python_has_items(struct gm_python *python, uint64_t object)
{
	const struct gm_type *type = gm_py_type_of(python, object);
	return type && type->itemsize != 0;
}

bool gm_python_is_atom(struct gm_python *python, uint64_t object)
{
	const struct gm_type *type = gm_py_type_of(python, object);
	return !type || type->atom;
}
