#include "view/tables.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/driven.h"
#include "ask/recording/operator.h"
#include "ask/recording/place.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/packages.h"
#include "base/visible.h"
#include "model/native_names.h"
#include "render/json.h"
#include "render/tensor.h"
#include "view/calls.h"
#include "view/sources.h"

struct frame {
	uint32_t file, function, line, source;
	bool library; /* of an installed package or of Python */
};

/* The tensor that a text describes, as far as it is known. */
struct tensor {
	uint32_t text, id; /* id: the log's */
};

struct gm_view_tables {
	const struct gm_model *model;
	const struct gm_log *log;
	const struct gm_driven *driven;
	struct gm_view_sources *sources; /* NULL: none */
	GM_ARRAY(char *) texts;          /* as they are shown; number n is items[n - 1] */
	uint32_t *slots;           /* open-addressed: numbers of texts by their content; 0: free */
	size_t slot_count;         /* a power of two */
	GM_ARRAY(uint32_t) stacks; /* Python stacks of the log */
	GM_ARRAY(struct frame) frames;
	GM_ARRAY(struct tensor) tensors;
	/* From numbers of the log, plus 1, to ours, plus 1. */
	struct gm_map by_stack, by_frame, by_python_site, by_native_site, by_operator, by_node,
	        by_collective, by_tensor;
	/* Of Python and native stacks together: an event of backward is described by its operator.
	 * */
	struct gm_map by_borrowed_site;
	bool no_memory;
};

struct gm_error *gm_view_tables_create(const struct gm_model *model,
        struct gm_view_sources *sources, struct gm_view_tables **ret_tables)
{
	struct gm_view_tables *tables = calloc(1, sizeof(*tables));
	if (!tables)
		return &gm_error_no_memory;
	tables->model = model;
	tables->log = gm_model_log(model);
	tables->sources = sources;
	*ret_tables = tables;
	return NULL;
}

void gm_view_tables_destroy(struct gm_view_tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->texts.count; i++)
		free(tables->texts.items[i]);
	gm_array_deinit(&tables->texts);
	gm_array_deinit(&tables->stacks);
	gm_array_deinit(&tables->frames);
	gm_array_deinit(&tables->tensors);
	free(tables->slots);
	gm_map_deinit(&tables->by_stack);
	gm_map_deinit(&tables->by_frame);
	gm_map_deinit(&tables->by_python_site);
	gm_map_deinit(&tables->by_native_site);
	gm_map_deinit(&tables->by_borrowed_site);
	gm_map_deinit(&tables->by_operator);
	gm_map_deinit(&tables->by_node);
	gm_map_deinit(&tables->by_collective);
	gm_map_deinit(&tables->by_tensor);
	free(tables);
}

static size_t slot_of(const struct gm_view_tables *tables, const char *text)
{
	size_t at = gm_hash_bytes(text, strlen(text), 0) & (tables->slot_count - 1);
	while (tables->slots[at] && strcmp(tables->texts.items[tables->slots[at] - 1], text) != 0)
		at = (at + 1) & (tables->slot_count - 1);
	return at;
}

static bool grow_slots(struct gm_view_tables *tables)
{
	size_t count = tables->slot_count ? tables->slot_count * 2 : 256;
	uint32_t *slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	free(tables->slots);
	tables->slots = slots;
	tables->slot_count = count;
	for (size_t i = 0; i < tables->texts.count; i++)
		slots[slot_of(tables, tables->texts.items[i])] = (uint32_t)i + 1;
	return true;
}

/* As it is shown to people: bounded, and without characters that would act. */
static char *shown(const char *text)
{
	char *made = NULL;
	size_t size;
	FILE *out = open_memstream(&made, &size);
	if (!out)
		return NULL;
	gm_put_visible(text, strlen(text), out);
	if (fclose(out) == 0)
		return made;
	free(made);
	return NULL;
}

uint32_t gm_view_text(struct gm_view_tables *tables, const char *text)
{
	if (!text || !*text)
		return 0;
	char *made = shown(text);
	if (!made || ((tables->texts.count + 1) * 2 > tables->slot_count && !grow_slots(tables))) {
		free(made);
		tables->no_memory = true;
		return 0;
	}
	size_t slot = slot_of(tables, made);
	if (tables->slots[slot]) {
		free(made);
		return tables->slots[slot];
	}
	if (!gm_array_push(&tables->texts, made)) {
		free(made);
		tables->no_memory = true;
		return 0;
	}
	return tables->slots[slot] = (uint32_t)tables->texts.count;
}

/* The number stored for `key`; *ret_new: there is none yet. NULL: out of memory. */
static uint64_t *kept_of(
        struct gm_view_tables *tables, struct gm_map *map, uint64_t key, bool *ret_new)
{
	uint64_t *number = gm_map_put(map, key, ret_new);
	tables->no_memory |= !number;
	return number;
}

static uint64_t *kept(
        struct gm_view_tables *tables, struct gm_map *map, uint32_t key, bool *ret_new)
{
	return kept_of(tables, map, (uint64_t)key + 1, ret_new);
}

uint32_t gm_view_stack(struct gm_view_tables *tables, uint32_t python)
{
	bool new;
	uint64_t *number = python ? kept(tables, &tables->by_stack, python, &new) : NULL;
	if (!number)
		return 0;
	if (!new)
		return (uint32_t)*number;
	if (!gm_array_push(&tables->stacks, python)) {
		tables->no_memory = true;
		return 0;
	}
	return (uint32_t)(*number = tables->stacks.count);
}

static uint32_t site_text(struct gm_view_tables *tables, const struct gm_shown_site *site)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out) {
		tables->no_memory = true;
		return 0;
	}
	gm_put_shown_site(site, out);
	tables->no_memory |= fclose(out) != 0;
	uint32_t number = text ? gm_view_text(tables, text) : 0;
	free(text);
	return number;
}

void gm_view_descend(struct gm_view_tables *tables, const struct gm_driven *driven)
{
	tables->driven = driven;
	gm_map_deinit(&tables->by_python_site);
	gm_map_deinit(&tables->by_borrowed_site);
}

uint32_t gm_view_site(struct gm_view_tables *tables, const struct gm_block *block)
{
	struct gm_event event = {.flags = block->flags};
	struct gm_frame_place place;
	struct gm_shown_site site;
	bool new;
	gm_model_stacks(tables->model, block->alloc, &event.python_stack, &event.native_stack);
	uint32_t python = event.python_stack, native = event.native_stack;
	bool has_place = python && gm_place_site(tables->log, python, &place);
	if (!has_place && !native)
		return 0;
	uint64_t *number;
	if (has_place && native && event.flags & GM_EVENT_BORROWED)
		number = kept_of(
		        tables, &tables->by_borrowed_site, (uint64_t)python << 32 | native, &new);
	else
		number = has_place ? kept(tables, &tables->by_python_site, python, &new)
		                   : kept(tables, &tables->by_native_site, native, &new);
	if (!number)
		return 0;
	if (new &&gm_shown_site(tables->driven, tables->log, &event, &site))
		*number = site_text(tables, &site);
	return (uint32_t)*number;
}

/* The result of `describe` for a native stack, as a text; `map`: earlier results. */
static uint32_t native_text(struct gm_view_tables *tables, struct gm_map *map, uint32_t native,
        bool (*describe)(const struct gm_log *, uint32_t, char[GM_OPERATOR_MAX]))
{
	char name[GM_OPERATOR_MAX];
	bool new;
	uint64_t *number = native ? kept(tables, map, native, &new) : NULL;
	if (!number)
		return 0;
	if (new &&describe(tables->log, native, name))
		*number = gm_view_text(tables, name);
	return (uint32_t)*number;
}

uint32_t gm_view_operator(struct gm_view_tables *tables, uint32_t native)
{
	return native_text(tables, &tables->by_operator, native, gm_operator_of);
}

uint32_t gm_view_node(struct gm_view_tables *tables, uint32_t native)
{
	return native_text(tables, &tables->by_node, native, gm_node_of);
}

static uint32_t collective_text(struct gm_view_tables *tables, uint32_t native)
{
	char name[GM_NATIVE_NAME_MAX], *text = NULL;
	size_t count = 0, size;
	const uint64_t *addresses = gm_log_native_stack(tables->log, native, &count);
	FILE *out = open_memstream(&text, &size);
	if (!out) {
		tables->no_memory = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(tables->log, addresses[i], &place);
		if (place.function && gm_native_collective(place.function, name))
			fprintf(out, "%s%s", ftell(out) ? " " : "", name);
	}
	tables->no_memory |= fclose(out) != 0;
	uint32_t number = text ? gm_view_text(tables, text) : 0;
	free(text);
	return number;
}

uint32_t gm_view_collective(struct gm_view_tables *tables, uint32_t native)
{
	bool new;
	uint64_t *number = native ? kept(tables, &tables->by_collective, native, &new) : NULL;
	if (!number)
		return 0;
	if (new)
		*number = collective_text(tables, native);
	return (uint32_t)*number;
}

uint32_t gm_view_tensor(struct gm_view_tables *tables, uint32_t tensor)
{
	char text[GM_TENSOR_TEXT];
	bool new;
	uint64_t *number = tensor ? kept(tables, &tables->by_tensor, tensor, &new) : NULL;
	if (!number)
		return 0;
	if (new && (*number = gm_view_text(tables, gm_text_tensor(tables->log, tensor, text)))) {
		const struct tensor entry = {(uint32_t)*number, tensor};
		tables->no_memory |= !gm_array_push(&tables->tensors, entry);
	}
	return (uint32_t)*number;
}

/* The number of a frame, from 0; it is the log's own, with the names of ours. */
static uint32_t frame_number(
        struct gm_view_tables *tables, uint32_t id, const struct gm_frame_place *place)
{
	bool new;
	uint64_t *number = kept(tables, &tables->by_frame, id, &new);
	if (!number)
		return 0;
	if (!new)
		return (uint32_t)*number;
	struct frame frame = {.file = gm_view_text(tables, place->file),
	        .function = gm_view_text(tables, place->function),
	        .line = place->line,
	        .library = gm_file_is_library(place->file)};
	if (tables->sources)
		frame.source = gm_view_text(
		        tables, gm_view_source(tables->sources, place->file, place->line));
	if (!gm_array_push(&tables->frames, frame)) {
		tables->no_memory = true;
		return 0;
	}
	return (uint32_t)(*number = tables->frames.count - 1);
}

static void write_stack(
        struct gm_view_tables *tables, struct gm_view_columns *columns, uint32_t python)
{
	size_t count = 0, shown = 0;
	const uint32_t *ids = gm_log_python_stack(tables->log, python, &count);
	struct gm_frame_place place;
	while (ids && shown < count && gm_place_frame(tables->log, python, shown, &place))
		shown++;
	gm_view_put(columns, shown);
	for (size_t i = 0; i < shown; i++) {
		gm_place_frame(tables->log, python, i, &place);
		gm_view_put(columns, frame_number(tables, ids[i], &place));
	}
}

static struct gm_error *write_texts(struct gm_view_tables *tables, struct gm_view_columns *columns)
{
	gm_view_column_begin(columns, "texts", GM_VIEW_JSON);
	gm_view_put_bytes(columns, "[\"\"", 3);
	struct gm_error *error = NULL;
	for (size_t i = 0; i < tables->texts.count && !error; i++) {
		_cleanup_free_ char *text = NULL;
		error = gm_json_text(
		        gm_json_string(tables->texts.items[i]), JSON_ENCODE_ANY, &text);
		if (error)
			break;
		gm_view_put_bytes(columns, ",", 1);
		gm_view_put_bytes(columns, text, strlen(text));
	}
	gm_view_put_bytes(columns, "]", 1);
	gm_view_column_end(columns);
	return error;
}

static struct gm_error *write_tensors(
        struct gm_view_tables *tables, struct gm_view_columns *columns)
{
	_cleanup_free_ char *text = NULL;
	gm_json_begin();
	json_t *all = json_array();
	for (size_t i = 0; i < tables->tensors.count; i++) {
		const struct tensor *tensor = &tables->tensors.items[i];
		json_t *one = json_object();
		json_object_set_new(one, "text", json_integer(tensor->text));
		gm_json_set_tensor(one, tables->log, tensor->id);
		json_array_append_new(all, one);
	}
	gm_try(gm_json_text(all, JSON_COMPACT, &text));
	gm_view_column_begin(columns, "tensors", GM_VIEW_JSON);
	gm_view_put_bytes(columns, text, strlen(text));
	gm_view_column_end(columns);
	return NULL;
}

struct gm_error *gm_view_tables_write(
        struct gm_view_tables *tables, struct gm_view_columns *columns)
{
	/* frames get their numbers and texts here */
	gm_view_column_begin(columns, "stacks", GM_VIEW_NUMBERS);
	for (size_t i = 0; i < tables->stacks.count; i++)
		write_stack(tables, columns, tables->stacks.items[i]);
	gm_view_column_end(columns);
	static const char *const names[] = {
	        "frame.file", "frame.function", "frame.line", "frame.library", "frame.source"};
	for (int which = 0; which < (tables->sources ? 5 : 4); which++) {
		gm_view_column_begin(columns, names[which], GM_VIEW_NUMBERS);
		for (size_t i = 0; i < tables->frames.count; i++) {
			const struct frame *frame = &tables->frames.items[i];
			gm_view_put(columns, which == 0   ? frame->file
			                     : which == 1 ? frame->function
			                     : which == 2 ? frame->line
			                     : which == 3 ? frame->library
			                                  : frame->source);
		}
		gm_view_column_end(columns);
	}
	gm_try(write_texts(tables, columns));
	gm_try(write_tensors(tables, columns));
	gm_try(gm_view_calls(tables->model, tables->stacks.items, tables->stacks.count, columns));
	return tables->no_memory ? &gm_error_no_memory : NULL;
}
