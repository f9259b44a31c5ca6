#include "ask/names/walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULES_DEEP = 64, CONTAINERS_DEEP = 3, KEY_LENGTH = 255 };

/* ---- the path -------------------------------------------------------------------------------- */

bool gm_name_walk_push(struct gm_name_walk *walk, size_t *ret_before, const char *format, ...)
{
	size_t capacity = sizeof(walk->path) - walk->length;
	va_list arguments;
	*ret_before = walk->length;
	va_start(arguments, format);
	int length = vsnprintf(walk->path + walk->length, capacity, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= capacity) {
		gm_name_walk_pop(walk, *ret_before);
		walk->omitted++;
		return false;
	}
	walk->length += (size_t)length;
	return true;
}

bool gm_name_walk_is_whole(struct gm_name_walk *walk, const char *name)
{
	if (name && strnlen(name, KEY_LENGTH) < KEY_LENGTH)
		return true;
	walk->omitted += name != NULL;
	return false;
}

void gm_name_walk_pop(struct gm_name_walk *walk, size_t before)
{
	walk->length = before;
	walk->path[before] = '\0';
}

/* ---- tensors --------------------------------------------------------------------------------- */

uint64_t gm_name_walk_tensor(struct gm_name_walk *walk, enum gm_named_kind kind,
        const struct gm_tensor *tensor, const char *key)
{
	struct gm_storage storage;
	if (!gm_torch_storage(walk->reading->torch, tensor->storage, &storage) || !storage.data ||
	        !storage.size)
		return 0;
	if (walk->found.count >= GM_TENSOR_NAMES_MAX) {
		walk->omitted++;
		return 0;
	}
	uint64_t bits = tensor->element_bits, bytes = gm_zero_tensor_bytes(tensor);
	uint64_t offset = tensor->storage_offset < storage.size ? tensor->storage_offset * bits / 8
	                                                        : storage.size;
	if (offset > storage.size)
		offset = storage.size;
	struct gm_found_name found = {
	        .tensor = {.kind = kind,
	                .device_type = (uint8_t)storage.device_type,
	                .device = storage.device,
	                .address = storage.data,
	                .offset = offset,
	                .size = bytes < storage.size - offset ? bytes : storage.size - offset},
	        .path = strdup(walk->path),
	        .key = key ? strdup(key) : NULL,
	        .root = walk->root,
	};
	if (!found.path || (key && !found.key) || !gm_array_push(&walk->found, found) ||
	        !gm_map_put(&walk->tensors, tensor->address, NULL)) {
		walk->no_memory = true;
		return 0;
	}
	if (walk->root != UINT32_MAX)
		walk->roots.items[walk->root].named = true;
	return walk->found.count;
}

/* The gradient of a leaf, with the leaf's name. */
static void add_gradient(struct gm_name_walk *walk, uint64_t object)
{
	struct gm_tensor whole, part;
	size_t before;
	if (!gm_zero_whole_tensor(walk->reading, object, &whole) || !whole.grad ||
	        gm_map_find(&walk->tensors, whole.grad) ||
	        !gm_torch_tensor(walk->reading->torch, whole.grad, &part) ||
	        !gm_zero_plausible(&part))
		return;
	if (part.python) /* of a DTensor, its local part */
		gm_zero_tensor(walk->reading, part.python, &part);
	if (gm_name_walk_push(walk, &before, ".grad")) {
		gm_name_walk_tensor(walk, GM_NAMED_GRADIENT, &part, NULL);
		gm_map_put(&walk->tensors, whole.grad, NULL);
		gm_name_walk_pop(walk, before);
	}
}

uint64_t gm_name_walk_add(
        struct gm_name_walk *walk, enum gm_named_kind kind, uint64_t object, const char *key)
{
	struct gm_tensor tensor;
	if (walk->no_memory || !gm_zero_tensor(walk->reading, object, &tensor) ||
	        gm_map_find(&walk->tensors, tensor.address))
		return 0;
	uint64_t number = gm_name_walk_tensor(walk, kind, &tensor, key);
	if (kind != GM_NAMED_PARAMETER)
		return number;
	uint64_t *known = gm_map_put(&walk->objects, object, NULL);
	if (!known) {
		walk->no_memory = true;
		return 0;
	}
	*known = number;
	if (walk->root != UINT32_MAX)
		walk->roots.items[walk->root].parameters++;
	add_gradient(walk, object);
	if (number)
		walk->found.items[number - 1].object = object;
	return number;
}

/* ---- containers ------------------------------------------------------------------------------ */

struct container_visit {
	struct gm_name_walk *walk;
	enum gm_named_kind kind;
	const char *key;
	unsigned depth;
	uint64_t count;
};

static bool is_container(struct gm_name_walk *walk, uint64_t object)
{
	static const char *const names[] = {"list", "tuple", "dict", "collections.OrderedDict",
	        "OrderedDict", "collections.defaultdict", "collections.deque"};
	const char *type;
	if (!gm_python_type_name(walk->reading->python, object, &type))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(type, names[i]) == 0)
			return true;
	return false;
}

static bool see_content(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct container_visit *visit = context;
	struct gm_name_walk *walk = visit->walk;
	size_t before;
	bool pushed = false;
	if (kind == GM_EDGE_ITEM)
		pushed = gm_name_walk_push(walk, &before, "[%lld]", (long long)index);
	else if (kind == GM_EDGE_KEY && gm_name_walk_is_whole(walk, name))
		pushed = gm_name_walk_push(walk, &before, "['%s']", name);
	if (!pushed)
		return true;
	if (!gm_name_walk_add(walk, visit->kind, target, visit->key) &&
	        visit->depth < CONTAINERS_DEEP && is_container(walk, target)) {
		struct container_visit inner = *visit;
		inner.depth++;
		inner.count = 0;
		gm_python_references(walk->reading->python, target, see_content, &inner);
	}
	gm_name_walk_pop(walk, before);
	return !walk->no_memory && ++visit->count < GM_ZERO_OBJECTS_MAX;
}

void gm_name_walk_container(
        struct gm_name_walk *walk, enum gm_named_kind kind, uint64_t object, const char *key)
{
	struct container_visit visit = {.walk = walk, .kind = kind, .key = key, .depth = 1};
	if (is_container(walk, object))
		gm_python_references(walk->reading->python, object, see_content, &visit);
}

/* ---- modules --------------------------------------------------------------------------------- */

struct part_visit {
	struct gm_name_walk *walk;
	enum gm_named_kind kind;
	bool inner; /* within the instance's dict */
};

static bool see_part(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct part_visit *visit = context;
	struct gm_name_walk *walk = visit->walk;
	size_t before;
	if (!gm_name_walk_is_whole(walk, name) ||
	        !gm_name_walk_push(walk, &before, "%s%s", walk->length ? "." : "", name))
		return true;
	gm_name_walk_add(walk, visit->kind, value, NULL);
	gm_name_walk_pop(walk, before);
	return !walk->no_memory;
}

static bool see_attribute(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct part_visit *visit = context;
	struct gm_name_walk *walk = visit->walk;
	size_t before;
	if (kind == GM_EDGE_OTHER && name && strcmp(name, "__dict__") == 0 && !visit->inner) {
		struct part_visit inner = *visit;
		inner.inner = true;
		gm_python_references(walk->reading->python, target, see_attribute, &inner);
	}
	if ((kind != GM_EDGE_ATTRIBUTE && kind != GM_EDGE_KEY) ||
	        !gm_name_walk_is_whole(walk, name) || strcmp(name, "_parameters") == 0 ||
	        strcmp(name, "_buffers") == 0 || strcmp(name, "_modules") == 0 ||
	        !gm_name_walk_push(walk, &before, "%s%s", walk->length ? "." : "", name))
		return !walk->no_memory;
	if (!gm_name_walk_add(walk, GM_NAMED_ATTRIBUTE, target, NULL))
		gm_name_walk_container(walk, GM_NAMED_ATTRIBUTE, target, NULL);
	gm_name_walk_pop(walk, before);
	return !walk->no_memory;
}

static void visit_module(struct gm_name_walk *walk, uint64_t module);

static bool see_child(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct gm_name_walk *walk = context;
	size_t before;
	if (!gm_name_walk_is_whole(walk, name) ||
	        !gm_python_is_instance(walk->reading->python, value, "Module") ||
	        !gm_name_walk_push(walk, &before, "%s%s", walk->length ? "." : "", name))
		return true;
	visit_module(walk, value);
	gm_name_walk_pop(walk, before);
	return !walk->no_memory;
}

/* In the order of named_parameters(): a module or parameter that is found twice gets the name that
 * it has there. */
static void visit_module(struct gm_name_walk *walk, uint64_t module)
{
	bool is_new = false;
	struct gm_zero_attribute parts[] = {{"_parameters", 0}, {"_buffers", 0}, {"_modules", 0}};
	struct part_visit parameters = {walk, GM_NAMED_PARAMETER, false},
	                  buffers = {walk, GM_NAMED_BUFFER, false},
	                  attributes = {walk, GM_NAMED_ATTRIBUTE, false};
	if (walk->depth >= MODULES_DEEP || walk->no_memory)
		return;
	if (!gm_map_put(&walk->modules, module, &is_new))
		walk->no_memory = true;
	if (!is_new)
		return;
	walk->depth++;
	gm_zero_attributes(walk->reading, module, parts, 3);
	gm_zero_pairs(walk->reading, parts[0].object, see_part, &parameters);
	gm_zero_pairs(walk->reading, parts[1].object, see_part, &buffers);
	gm_zero_pairs(walk->reading, parts[2].object, see_child, walk);
	/* last, because a list of a module's parameters does not own them
	 * (torch.nn.RNNBase._flat_weights) */
	gm_python_references(walk->reading->python, module, see_attribute, &attributes);
	walk->depth--;
}

struct children_visit {
	struct gm_name_walk *walk;
	struct gm_map children;
};

static bool note_child(void *context, uint64_t key, uint64_t value, const char *name)
{
	struct children_visit *visit = context;
	if (!gm_map_put(&visit->children, value, NULL))
		visit->walk->no_memory = true;
	return !visit->walk->no_memory;
}

void gm_name_walk_modules(struct gm_name_walk *walk)
{
	struct children_visit visit = {.walk = walk};
	const struct gm_zero_objects *modules = &walk->reading->modules;
	for (size_t i = 0; i < modules->count && !walk->no_memory; i++) {
		struct gm_zero_attribute parts[] = {{"_modules", 0}};
		gm_zero_attributes(walk->reading, modules->items[i], parts, 1);
		gm_zero_pairs(walk->reading, parts[0].object, note_child, &visit);
	}
	for (size_t i = 0; i < modules->count && !walk->no_memory; i++) {
		struct gm_name_root root = {.module = modules->items[i]};
		if (gm_map_find(&visit.children, modules->items[i]))
			continue;
		walk->root = (uint32_t)walk->roots.count;
		if (!gm_array_push(&walk->roots, root))
			walk->no_memory = true;
		else
			visit_module(walk, modules->items[i]);
	}
	gm_map_deinit(&visit.children);
}

void gm_name_walk_deinit(struct gm_name_walk *walk)
{
	for (size_t i = 0; i < walk->found.count; i++) {
		free(walk->found.items[i].path);
		free(walk->found.items[i].key);
	}
	for (size_t i = 0; i < walk->roots.count; i++)
		free(walk->roots.items[i].prefix);
	gm_array_deinit(&walk->found);
	gm_array_deinit(&walk->roots);
	gm_array_deinit(&walk->fragments);
	gm_map_deinit(&walk->modules);
	gm_map_deinit(&walk->objects);
	gm_map_deinit(&walk->tensors);
}
