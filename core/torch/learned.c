#include "torch/learned.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/layouts_file.h"
#include "torch/fields.h"

enum { FILE_NAME = GM_BUILD_ID_TEXT + 32, PYTHON_LIBRARY = 3 };

const char *const gm_torch_libraries[GM_TORCH_LIBRARIES] = {
        "libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_python.so"};

void gm_torch_builds_read(const struct gm_symbols *symbols, struct gm_torch_builds *builds)
{
	size_t count;
	const struct gm_module *modules = gm_symbols_modules(symbols, &count);
	for (size_t library = 0; library < GM_TORCH_LIBRARIES; library++) {
		struct gm_build_id *id = &builds->ids[library];
		id->size = 0;
		for (size_t i = 0; i < count; i++) {
			if (strcmp(modules[i].name, gm_torch_libraries[library]) != 0)
				continue;
			id->size = modules[i].build_id_size;
			memcpy(id->bytes, modules[i].build_id, id->size);
			break;
		}
	}
}

const char *gm_torch_builds_differ(
        const struct gm_torch_builds *left, const struct gm_torch_builds *right)
{
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (left->ids[i].size == 0 || !gm_build_id_equal(&left->ids[i], &right->ids[i]))
			return gm_torch_libraries[i];
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct reader {
	struct gm_torch_learned *learned;
	bool *has; /* of gm_torch_fields */
};

static bool parse_id(const char *text, struct gm_build_id *id)
{
	size_t length = strlen(text);
	if (length == 0 || length % 2 || length / 2 > GM_BUILD_ID_MAX)
		return false;
	for (size_t i = 0; i < length / 2; i++) {
		unsigned byte;
		if (!isxdigit((unsigned char)text[2 * i]) ||
		        !isxdigit((unsigned char)text[2 * i + 1]) ||
		        sscanf(text + 2 * i, "%2x", &byte) != 1)
			return false;
		id->bytes[i] = (uint8_t)byte;
	}
	id->size = length / 2;
	return true;
}

static const char *read_field(struct reader *reader, const char *name, const char *number)
{
	const struct gm_torch_field *field = gm_torch_field_find(name);
	char *end;
	errno = 0;
	unsigned long value = strtoul(number, &end, 10);
	if (errno || end == number || *end || !isdigit((unsigned char)number[0]) ||
	        value > UINT32_MAX)
		return "a field's value is not a number";
	if (!field) /* written by a newer gpumem */
		return NULL;
	if (reader->has[field - gm_torch_fields])
		return "a field occurs twice";
	if (value > field->most)
		return "a field's value is too large";
	reader->has[field - gm_torch_fields] = true;
	gm_torch_field_set(&reader->learned->layout, field, (uint32_t)value);
	return NULL;
}

static const char *read_line(void *context, const char *text)
{
	struct reader *reader = context;
	struct gm_torch_builds *builds = &reader->learned->builds;
	char line[GM_LAYOUTS_LINE], *save;
	snprintf(line, sizeof(line), "%s", text);
	const char *word = strtok_r(line, " ", &save), *name = strtok_r(NULL, " ", &save),
	           *value = strtok_r(NULL, " ", &save);
	if (!word || !name)
		return "half a line";
	if (strcmp(word, "version") == 0) {
		if (strlen(name) >= sizeof(builds->version))
			return "a version too long";
		strcpy(builds->version, name);
	} else if (strcmp(word, "build") == 0) {
		if (!value)
			return "half a line";
		for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
			if (strcmp(name, gm_torch_libraries[i]) == 0 &&
			        !parse_id(value, &builds->ids[i]))
				return "no build-id";
	} else if (strcmp(word, "field") == 0) {
		return value ? read_field(reader, name, value) : "half a line";
	} else if (strcmp(word, "fields") == 0) {
		reader->learned->fields = strtoul(name, NULL, 10);
	} else if (strcmp(word, "missing") != 0) {
		return "an unknown word";
	}
	return NULL;
}

static struct gm_error *refuse(const char *path, const char *why)
{
	return gm_error_create(GM_CORRUPT,
	        "%s: %s: the row cannot be used: remove the file and learn again with `gpumem "
	        "learn`",
	        path, why);
}

static struct gm_error *check_row(const char *path, struct gm_torch_learned *learned)
{
	const char *why;
	char text[128];
	struct gm_torch_layout *layout = &learned->layout;
	if (sscanf(learned->builds.version, "%d.%d", &layout->major, &layout->minor_first) != 2)
		return refuse(path, "no version");
	layout->minor_last = layout->minor_first;
	learned->builds.old_strings = layout->old_strings;
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (learned->builds.ids[i].size == 0)
			return refuse(path, "a library's build-id is missing");
	const struct gm_torch_field *field = gm_torch_layout_unsound(layout, &why);
	if (!field)
		return NULL;
	snprintf(text, sizeof(text), "field %s %s", field->name, why);
	return refuse(path, text);
}

struct gm_error *gm_torch_learned_parse(
        const char *path, const char *text, size_t size, struct gm_torch_learned *ret_learned)
{
	struct gm_torch_learned learned = {0};
	_cleanup_free_ bool *has = calloc(gm_torch_field_count, sizeof(*has));
	struct reader reader = {.learned = &learned, .has = has};
	bool found;
	if (!has)
		return &gm_error_no_memory;
	gm_try(gm_layouts_parse(path, text, size, "torch", read_line, &reader, &found));
	if (!found)
		return refuse(path, "it has no [torch] section");
	gm_try(check_row(path, &learned));
	*ret_learned = learned;
	return NULL;
}

struct gm_error *gm_torch_learned_load(const char *path, struct gm_torch_learned *ret_learned)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	gm_try(gm_layouts_load(path, &text, &size));
	return gm_torch_learned_parse(path, text, size, ret_learned);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct gm_error *gm_torch_learned_text(const struct gm_torch_learned *learned, char **ret_text)
{
	char *text = NULL, id[GM_BUILD_ID_TEXT];
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return &gm_error_no_memory;
	fprintf(out, "[torch]\nversion %s\n", learned->builds.version);
	for (size_t i = 0; i < GM_TORCH_LIBRARIES; i++)
		if (learned->builds.ids[i].size)
			fprintf(out, "build %s %s\n", gm_torch_libraries[i],
			        gm_build_id_text(&learned->builds.ids[i], id));
	fprintf(out, "fields %zu\n", gm_torch_field_count);
	for (size_t i = 0; i < gm_torch_field_count; i++) {
		uint32_t value = gm_torch_field_get(&learned->layout, &gm_torch_fields[i]);
		if (value)
			fprintf(out, "field %s %u\n", gm_torch_fields[i].name, (unsigned)value);
	}
	if (fclose(out) != 0) {
		free(text);
		return &gm_error_no_memory;
	}
	*ret_text = text;
	return NULL;
}

/* --- stored rows ------------------------------------------------------------------------------ */

/* The build-id of libtorch_python.so, which also depends on the Python; all four are compared
 * before a row is used. */
static void file_name(const struct gm_torch_builds *builds, char name[FILE_NAME])
{
	char id[GM_BUILD_ID_TEXT];
	snprintf(name, FILE_NAME, "torch-%s.layouts",
	        gm_build_id_text(&builds->ids[PYTHON_LIBRARY], id));
}

struct gm_error *gm_torch_kept_find(
        const struct gm_torch_builds *builds, struct gm_torch_learned *ret_learned, bool *ret_found)
{
	char name[FILE_NAME];
	_cleanup_free_ char *path = NULL, *text = NULL;
	struct gm_torch_learned learned;
	size_t size;
	*ret_found = false;
	if (builds->ids[PYTHON_LIBRARY].size == 0)
		return NULL;
	file_name(builds, name);
	gm_try(gm_layouts_kept_load(name, &path, &text, &size));
	if (!text)
		return NULL;
	gm_try(gm_torch_learned_parse(path, text, size, &learned));
	if (learned.fields != gm_torch_field_count)
		return NULL; /* written by a gpumem that looked for other fields: must be learned
		                again */
	const char *other = gm_torch_builds_differ(&learned.builds, builds);
	if (other)
		return gm_error_create(GM_CORRUPT,
		        "%s: it belongs to another build of %s: remove it and learn again with "
		        "`gpumem learn`",
		        path, other);
	*ret_learned = learned;
	*ret_found = true;
	return NULL;
}

struct gm_error *gm_torch_kept_save(const struct gm_torch_learned *learned, char **ret_path)
{
	char name[FILE_NAME];
	_cleanup_free_ char *path = NULL, *text = NULL;
	file_name(&learned->builds, name);
	gm_try(gm_torch_learned_text(learned, &text));
	gm_try(gm_layouts_kept_path(name, true, &path));
	gm_try(gm_layouts_save(path, text));
	*ret_path = gm_take(path);
	return NULL;
}
