#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cpython/cpython.h"
#include "cpython/versions/learned.h"
#include "cpython/versions/learned_fields.h"
#include "image/layouts_file.h"

static const char *take(void *context, const char *line)
{
	return gm_python_learned_line(context, line);
}

/* NULL: the file has no such section. */
static struct gm_error *parse_lines(
        const char *path, const char *text, size_t size, struct gm_python_learned **ret_learned)
{
	_cleanup_free_ struct gm_python_learned *learned = malloc(sizeof(*learned));
	bool found;

	if (!learned)
		return &gm_error_no_memory;
	gm_python_learned_init(learned);
	gm_try(gm_layouts_parse(path, text, size, "python", take, learned, &found));
	*ret_learned = found ? gm_take(learned) : NULL;
	return NULL;
}

static struct gm_error *check(const char *path, struct gm_python_learned *learned)
{
	const char *field;
	const char *why = gm_python_learned_check(learned, &field);
	if (!why && !learned->id_size)
		why = "its build is missing";
	if (why)
		return gm_error_create(GM_CORRUPT,
		        "%s: %s%s%s: the row cannot be used: remove the file and learn again with "
		        "`gpumem learn`",
		        path, field ? field : "", field ? ": " : "", why);
	return NULL;
}

struct gm_error *gm_python_learned_parse(
        const char *path, const char *text, size_t size, struct gm_python_learned **ret_learned)
{
	_cleanup_free_ struct gm_python_learned *learned = NULL;

	gm_try(parse_lines(path, text, size, &learned));
	if (learned)
		gm_try(check(path, learned));
	*ret_learned = gm_take(learned);
	return NULL;
}

struct gm_error *gm_python_learned_text(const struct gm_python_learned *learned, char **ret_text)
{
	struct gm_python_layout layout = learned->layout;
	char *text = NULL, line[256];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return &gm_error_no_memory;
	fprintf(out, "[python]\nhexversion %lu\n", learned->hex);
	if (learned->id_size) {
		fprintf(out, "build ");
		for (uint32_t i = 0; i < learned->id_size; i++)
			fprintf(out, "%02x", learned->id[i]);
		fprintf(out, "\n");
	}
	fprintf(out, "fields %zu\n", gm_learned_field_count);
	for (size_t i = 0; gm_python_field_name(i); i++) {
		int32_t value = *gm_python_field(&layout, i);
		if (value != GM_NO_FIELD)
			fprintf(out, "field %s %d\n", gm_python_field_name(i), value);
	}
	for (int i = 0; i < 256; i++)
		if (gm_python_opcode_line(&learned->tables, (uint8_t)i, line, sizeof(line)))
			fprintf(out, "opcode %s\n", line);
	if (fclose(out) != 0) {
		free(text);
		return &gm_error_no_memory;
	}
	*ret_text = text;
	return NULL;
}

static void file_name(const uint8_t *id, size_t id_size, char name[GM_LEARNED_ID * 2 + 32])
{
	char *at = name + sprintf(name, "python-");

	for (size_t i = 0; i < id_size && i < GM_LEARNED_ID; i++)
		at += sprintf(at, "%02x", id[i]);
	strcpy(at, ".layouts");
}

struct gm_error *gm_python_learned_save(const struct gm_python_learned *learned, char **ret_path)
{
	char name[GM_LEARNED_ID * 2 + 32];
	_cleanup_free_ char *path = NULL, *text = NULL;

	file_name(learned->id, learned->id_size, name);
	gm_try(gm_python_learned_text(learned, &text));
	gm_try(gm_layouts_kept_path(name, true, &path));
	gm_try(gm_layouts_save(path, text));
	*ret_path = gm_take(path);
	return NULL;
}

static bool is_of(const struct gm_python_learned *learned, const uint8_t *id, size_t id_size)
{
	return learned && learned->id_size == id_size && !memcmp(learned->id, id, id_size);
}

struct gm_error *gm_python_learned_find(const uint8_t *id, size_t id_size, const char *layouts,
        const struct gm_python_tables **ret_tables)
{
	_cleanup_free_ struct gm_python_learned *learned = NULL;
	_cleanup_free_ char *text = NULL, *path = NULL;
	char name[GM_LEARNED_ID * 2 + 32];
	size_t size;

	*ret_tables = gm_python_learned_of_build(id, id_size);
	if (*ret_tables || !id_size)
		return NULL;
	if (layouts) {
		gm_try(gm_layouts_load(layouts, &text, &size));
		gm_try(gm_python_learned_parse(layouts, text, size, &learned));
	}
	if (!is_of(learned, id, id_size)) {
		free(gm_take(text));
		free(gm_take(learned));
		file_name(id, id_size, name);
		gm_try(gm_layouts_kept_load(name, &path, &text, &size));
		if (!text)
			return NULL;
		gm_try(parse_lines(path, text, size, &learned));
		if (learned && learned->looked_for &&
		        learned->looked_for != (long)gm_learned_field_count)
			return NULL;
		if (learned)
			gm_try(check(path, learned));
		if (!is_of(learned, id, id_size))
			return gm_error_create(GM_CORRUPT,
			        "%s: it is of another build of CPython: remove it and learn again "
			        "with `gpumem learn`",
			        path);
	}
	gm_python_learned_keep(gm_take(learned));
	*ret_tables = gm_python_learned_of_build(id, id_size);
	return NULL;
}
