/*
 * Reads an answer of `retained` from a file with its JSON. The file is hostile input: it may
 * contain anything, and may be truncated anywhere.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/regular_file.h"
#include "base/whole_file.h"
#include "render/json.h"
#include "render/native_owner.h"
#include "render/retained.h"

enum {
	MAX_DEPTH = 250,
	MAX_FILE = 256 << 20,
};

struct gm_error *gm_retained_save(const struct gm_retained_answer *answer, const char *path)
{
	struct gm_retained_view all = {0};
	struct gm_whole_file whole;
	struct gm_error *error = gm_whole_file_open(path, 0666, GM_WHOLE_FILE_ANY, &whole);
	if (error)
		return gm_error_prefix(error, "--save");
	int descriptor = dup(whole.fd);
	FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
	error = file ? gm_render_retained_json(answer, &all, file) : &gm_error_no_memory;
	bool failed = file && (ferror(file) | (fclose(file) != 0));
	if (!error && failed)
		error = gm_error_os(GM_TARGET, errno, "--save %s: cannot be written", path);
	if (!error)
		return gm_whole_file_finish(&whole);
	gm_whole_file_close(&whole);
	return error;
}

struct reading {
	const char *path;
	struct gm_error *error;
};

static void fail(struct reading *reading, const char *what)
{
	if (!reading->error)
		reading->error = gm_error_create(GM_CORRUPT,
		        "%s: not a saved answer of `gpumem retained`: %s: save one with --save "
		        "FILE",
		        reading->path, what);
}

static uint64_t number(struct reading *reading, json_t *object, const char *name)
{
	json_t *value = json_object_get(object, name);
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		fail(reading, name);
		return 0;
	}
	return (uint64_t)json_integer_value(value);
}

static char *read_text(struct reading *reading, json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	char *copy = text ? strdup(text) : NULL;
	if (text && !copy && !reading->error)
		reading->error = &gm_error_no_memory;
	return copy;
}

/* Holders in C++: the name is a description and is not compared. */
static void read_native(struct reading *reading, json_t *from, struct gm_retained_name *name)
{
	json_t *native = json_object_get(from, "native");
	if (!native)
		return;
	name->native = gm_native_owner_read(native);
	if (!name->native)
		fail(reading, "native");
	free(name->name);
	name->name = NULL;
}

static void read_names(struct reading *reading, json_t *array, unsigned depth,
        struct gm_retained_name **ret_names, size_t *ret_count)
{
	size_t count = json_array_size(array);
	if (count == 0 || depth > MAX_DEPTH) {
		fail(reading, "a group has no name, as in answers of older versions");
		return;
	}
	*ret_names = calloc(count, sizeof(**ret_names));
	if (!*ret_names) {
		reading->error = reading->error ? reading->error : &gm_error_no_memory;
		return;
	}
	for (size_t i = 0; i < count && !reading->error; i++) {
		json_t *from = json_array_get(array, i);
		const char *form = json_string_value(json_object_get(from, "form"));
		json_t *items = json_object_get(from, "count");
		json_t *members = json_object_get(from, "members");
		json_t *graphs = json_object_get(from, "graphs");
		struct gm_retained_name *name = &(*ret_names)[(*ret_count)++];
		if (!form || !gm_retained_form_find(form, &name->form))
			fail(reading, "form");
		name->name = read_text(reading, from, "name");
		name->of = read_text(reading, from, "of");
		read_native(reading, from, name);
		name->more = json_is_true(json_object_get(from, "more"));
		if (json_is_integer(items) && json_integer_value(items) >= 0 &&
		        json_integer_value(items) <= UINT32_MAX)
			name->count = (uint32_t)json_integer_value(items);
		else if (items)
			fail(reading, "count");
		if (members && !reading->error)
			read_names(
			        reading, members, depth + 1, &name->members, &name->member_count);
		if (graphs && !reading->error)
			read_names(reading, graphs, depth + 1, &name->graphs, &name->graph_count);
	}
}

static void read_nodes(struct reading *reading, json_t *array, unsigned depth,
        struct gm_retained_node **nodes, size_t *count)
{
	size_t added = json_array_size(array);
	if (!json_is_array(array) || depth > MAX_DEPTH) {
		fail(reading, "groups");
		return;
	}
	if (added == 0)
		return;
	struct gm_retained_node *grown = realloc(*nodes, (*count + added) * sizeof(*grown));
	if (!grown) {
		reading->error = reading->error ? reading->error : &gm_error_no_memory;
		return;
	}
	*nodes = grown;
	memset(grown + *count, 0, added * sizeof(*grown));
	for (size_t i = 0; i < added && !reading->error; i++) {
		json_t *from = json_array_get(array, i);
		struct gm_retained_node *node = &grown[(*count)++];
		node->kind = GM_RETAINED_PART;
		node->root = json_object_get(from, "variable") != NULL;
		read_names(
		        reading, json_object_get(from, "name"), 0, &node->names, &node->name_count);
		node->bytes = number(reading, from, "bytes");
		node->blocks = number(reading, from, "blocks");
		if (!reading->error)
			read_nodes(reading, json_object_get(from, "children"), depth + 1,
			        &node->children, &node->child_count);
	}
}

static void read_device(struct reading *reading, json_t *from, struct gm_retained *retained)
{
	struct gm_retained_device *device = &retained->devices[retained->device_count++];
	static const char *const groups[] = {"roots", "shared_groups", "unknown_groups"};
	json_t *index = json_object_get(from, "device");
	if (!json_is_integer(index) || json_integer_value(index) < -1 ||
	        json_integer_value(index) > 127)
		fail(reading, "device");
	else
		device->device = (int)json_integer_value(index);
	device->allocated = number(reading, from, "allocated");
	device->allocated_blocks = number(reading, from, "allocated_blocks");
	for (size_t i = 0; i < 3 && !reading->error; i++)
		read_nodes(reading, json_object_get(from, groups[i]), 0, &device->nodes,
		        &device->node_count);
}

static void read_root(struct reading *reading, json_t *root, struct gm_retained *retained)
{
	json_t *others = json_object_get(root, "other_devices");
	size_t count = json_array_size(others);
	const char *format = json_string_value(json_object_get(root, "format"));
	if (!format || strcmp(format, GM_RETAINED_FORMAT) != 0) {
		fail(reading, "it is something else");
		return;
	}
	retained->devices = calloc(count + 1, sizeof(*retained->devices));
	if (!retained->devices) {
		reading->error = &gm_error_no_memory;
		return;
	}
	read_device(reading, root, retained);
	for (size_t i = 0; i < count && !reading->error; i++)
		read_device(reading, json_array_get(others, i), retained);
}

struct gm_error *gm_retained_load(const char *path, struct gm_retained *ret_retained)
{
	_cleanup_fclose_ FILE *file = gm_regular_file_stream(path);
	struct reading reading = {.path = path};
	struct gm_retained retained = {0};
	json_error_t why;
	if (!file)
		return gm_error_create(GM_CORRUPT,
		        "%s: cannot be read: %s: name a file that `gpumem retained --save` wrote",
		        path, gm_regular_file_why(errno));
	if (fseek(file, 0, SEEK_END) || ftell(file) > MAX_FILE || fseek(file, 0, SEEK_SET))
		return gm_error_create(
		        GM_CORRUPT, "%s: too large for a saved answer: check the name", path);
	json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return gm_error_create(GM_CORRUPT,
		        "%s: not a saved answer of `gpumem retained`: at byte %d: %s: save one "
		        "with --save FILE",
		        path, why.position, why.text);
	read_root(&reading, root, &retained);
	json_decref(root);
	if (reading.error)
		gm_retained_deinit(&retained);
	else
		*ret_retained = retained;
	return reading.error;
}
