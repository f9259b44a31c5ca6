/*
 * Variable paths as a user types them: `output`, `self.cache['kept']`, `batches[-1].weight`. No
 * code runs: names are looked up in frames and dicts, attributes where instances store them, items
 * in lists, tuples, deques, dicts.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpython/python.h"

enum { MAX_FRAMES = 1024, MAX_EXPRESSION = 4096 };

struct path {
	struct gm_python *python;
	const char *whole;
	const char *at;
	uint64_t object;
};

static struct gm_error *usage(const struct path *path, const char *why)
{
	return gm_error_create(GM_USAGE,
	        "%s: %s at character %d: give a variable path such as output, self.cache['kept'] "
	        "or batches[0].x",
	        path->whole, why, (int)(path->at - path->whole) + 1);
}

static bool starts_name(char c)
{
	return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* A Python name at path->at; NULL if there is none. The caller frees it. */
static char *take_name(struct path *path)
{
	const char *start = path->at;

	if (!starts_name(*start))
		return NULL;
	while (starts_name(*path->at) || isdigit((unsigned char)*path->at))
		path->at++;
	return strndup(start, (size_t)(path->at - start));
}

static void skip_spaces(struct path *path)
{
	while (*path->at == ' ' || *path->at == '\t')
		path->at++;
}

/* --- names ------------------------------------------------------------------------------------ */

static uint64_t local_value(
        struct gm_python *python, const struct gm_python_frame *frame, const char *name)
{
	const struct gm_code *code = frame->code;

	for (uint32_t i = 0; i < code->local_count; i++) {
		uint64_t value;
		const struct gm_type *type;
		if (strcmp(code->local_names[i], name) != 0)
			continue;
		value = gm_python_local(python, frame, i);
		/* A cell variable's slot holds a cell once its frame has begun. */
		type = code->local_kinds[i] & (0x40 | 0x80) ? gm_py_type_of(python, value) : NULL;
		if (type && type->kind == GM_TYPE_CELL)
			value = gm_py_field(python, value, python->layout.cell_content);
		if (value)
			return value;
	}
	/* class bodies and modules have theirs in a dict */
	uint64_t dict = gm_py_field(python, frame->address, python->layout.frame_locals);
	return dict ? gm_py_dict_get_str(python, dict, name) : 0;
}

static struct gm_error *find_name(struct path *path, pid_t thread, size_t first, const char *name)
{
	struct gm_python *python = path->python;
	_cleanup_free_ struct gm_python_frame *frames = calloc(MAX_FRAMES, sizeof(*frames));
	size_t count;
	uint64_t seen = 0;

	if (!frames)
		return &gm_error_no_memory;
	count = gm_python_stack(python, thread, frames, MAX_FRAMES);
	if (!count)
		return gm_error_create(GM_TARGET,
		        "%s: thread %d has no Python frame: select a thread that runs Python code",
		        path->whole, (int)thread);
	if (first >= count)
		return gm_error_create(GM_USAGE,
		        "%s: thread %d has no Python frame %zu: `gpumem frames` lists its frames",
		        path->whole, (int)thread, first);
	for (size_t i = first; i < count; i++) {
		path->object = local_value(python, &frames[i], name);
		if (path->object)
			return NULL;
	}
	for (size_t i = first; i < count; i++) {
		uint64_t globals =
		        gm_py_field(python, frames[i].address, python->layout.frame_globals);
		if (!globals || globals == seen)
			continue;
		seen = globals;
		path->object = gm_py_dict_get_str(python, globals, name);
		if (path->object)
			return NULL;
	}
	if (first)
		return gm_error_create(GM_USAGE,
		        "%s: no variable '%s' in the selected Python frame, the %zu that called "
		        "it or their globals: name one that is assigned there, or select another "
		        "frame with `gpumem up` or `gpumem down`",
		        path->whole, name, count - first - 1);
	return gm_error_create(GM_USAGE,
	        "%s: no variable '%s' in the %zu frames of the thread or their globals: name one "
	        "that is "
	        "assigned there",
	        path->whole, name, count);
}

/* --- items ------------------------------------------------------------------------------------ */

struct item {
	int64_t wanted;
	uint64_t found;
};

static bool is_item(
        void *context, uint64_t target, enum gm_edge_kind kind, const char *name, int64_t index)
{
	struct item *item = context;

	if (kind != GM_EDGE_ITEM || index != item->wanted)
		return true;
	item->found = target;
	return false;
}

static uint64_t sequence_item(
        struct gm_python *python, uint64_t object, const struct gm_type *type, int64_t index)
{
	int64_t size = (int64_t)gm_py_size(python, object);
	uint64_t items = object + (uint64_t)python->layout.tuple_items;
	uint64_t value = 0;

	if (index < 0)
		index += size;
	if (index < 0 || index >= size)
		return 0;
	if (type->kind == GM_TYPE_DEQUE) {
		struct item item = {index, 0};
		gm_python_references(python, object, is_item, &item);
		return item.found;
	}
	if (type->kind == GM_TYPE_LIST)
		items = gm_py_field(python, object, python->layout.list_items);
	return gm_py_u64(python, items + 8 * (uint64_t)index, &value) ? value : 0;
}

static uint64_t number_item(
        struct gm_python *python, uint64_t object, const struct gm_type *type, int64_t index)
{
	char text[32];
	uint64_t modules;

	if (type->kind == GM_TYPE_LIST || type->kind == GM_TYPE_TUPLE ||
	        type->kind == GM_TYPE_DEQUE)
		return sequence_item(python, object, type, index);
	if (type->kind == GM_TYPE_DICT)
		return gm_py_dict_get_int(python, object, index);
	/* torch.nn.Sequential and ModuleList store their modules in a dict under "0", "1", ... */
	modules = gm_py_attribute(python, object, "_modules");
	type = modules ? gm_py_type_of(python, modules) : NULL;
	if (!type || type->kind != GM_TYPE_DICT)
		return 0;
	if (index < 0)
		index += (int64_t)gm_py_field(python, modules, python->layout.dict_used);
	snprintf(text, sizeof(text), "%lld", (long long)index);
	return gm_py_dict_get_str(python, modules, text);
}

static struct gm_error *no_item(
        const struct path *path, const char *start, const struct gm_type *type)
{
	return gm_error_create(GM_USAGE,
	        "%s: no item %.*s in the value before it (a %s): give an existing index or key",
	        path->whole, (int)(path->at - start), start, type ? type->name : "?");
}

static struct gm_error *take_item(struct path *path)
{
	struct gm_python *python = path->python;
	const struct gm_type *type = gm_py_type_of(python, path->object);
	const char *start = path->at++;
	_cleanup_free_ char *key = NULL;
	uint64_t value = 0;

	skip_spaces(path);
	if (*path->at == '\'' || *path->at == '"') {
		char quote = *path->at++;
		const char *end = strchr(path->at, quote);
		if (!end)
			return usage(path, "a quote is not closed");
		key = strndup(path->at, (size_t)(end - path->at));
		if (!key)
			return &gm_error_no_memory;
		path->at = end + 1;
		skip_spaces(path);
		if (*path->at != ']')
			return usage(path, "']' is missing");
		path->at++;
		if (type && type->kind == GM_TYPE_DICT)
			value = gm_py_dict_get_str(python, path->object, key);
	} else {
		char *end;
		long long number;
		errno = 0;
		number = strtoll(path->at, &end, 0);
		if (end == path->at || errno)
			return usage(path, "an index is a number or a quoted string");
		path->at = end;
		skip_spaces(path);
		if (*path->at != ']')
			return usage(path, "']' is missing");
		path->at++;
		if (type)
			value = number_item(python, path->object, type, number);
	}
	if (!value)
		return no_item(path, start, type);
	path->object = value;
	return NULL;
}

static struct gm_error *take_attribute(struct path *path)
{
	const struct gm_type *type = gm_py_type_of(path->python, path->object);
	_cleanup_free_ char *name = NULL;

	path->at++;
	skip_spaces(path);
	name = take_name(path);
	if (!name)
		return usage(path, "a name must follow the dot");
	path->object = gm_py_attribute(path->python, path->object, name);
	if (!path->object)
		return gm_error_create(GM_USAGE,
		        "%s: a %s object has no attribute '%s' in its dict or slots: properties "
		        "are not run; "
		        "name the attribute that holds the value",
		        path->whole, type ? type->name : "?", name);
	return NULL;
}

struct gm_error *gm_python_evaluate(struct gm_python *python, pid_t thread, size_t first,
        const char *expression, uint64_t *ret_object)
{
	struct path path = {python, expression, expression, 0};
	_cleanup_free_ char *name = NULL;

	if (strlen(expression) > MAX_EXPRESSION)
		return gm_error_create(GM_USAGE,
		        "a variable path of %zu characters: too long: give a shorter one",
		        strlen(expression));
	skip_spaces(&path);
	name = take_name(&path);
	if (!name)
		return usage(&path, "a path begins with a variable's name");
	gm_try(find_name(&path, thread, first, name));
	for (skip_spaces(&path); *path.at; skip_spaces(&path)) {
		if (*path.at == '.')
			gm_try(take_attribute(&path));
		else if (*path.at == '[')
			gm_try(take_item(&path));
		else
			return usage(&path, "neither '.' nor '[' follows");
	}
	*ret_object = path.object;
	return NULL;
}
