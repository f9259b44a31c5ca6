#include "ranks/sections/timeline.h"

#include <stdlib.h>

static struct gm_error *take(struct gm_strings *strings, const struct gm_shapes *shapes,
        const struct gm_shape *shape, struct gm_timeline_section *kept)
{
	struct gm_frame_place place;
	struct gm_kept_shape one = {.kind = shape->kind,
	        .step = shape->step,
	        .first = shape->first,
	        .last = shape->last,
	        .count = shape->count,
	        .bytes = shape->bytes,
	        .blocks = shape->blocks,
	        .of = shape->of};
	bool noted = shape->note[0] != '\0';
	bool placed =
	        shape->stack && gm_place_site(gm_model_log(shapes->model), shape->stack, &place);
	if (noted)
		one.note = gm_strings_add(strings, shape->note);
	if (placed)
		one.site = gm_section_place(strings, place.file, place.line, place.function);
	if ((noted && !one.note) || (placed && !one.site) || !gm_array_push(&kept->shapes, one))
		return &gm_error_no_memory;
	return NULL;
}

static struct gm_error *read_timeline(
        struct gm_context *context, struct gm_strings *strings, void *section, bool *ret_cut)
{
	struct gm_timeline_section *kept = section;
	struct gm_shapes shapes;
	struct gm_error *error =
	        gm_ask_plot(context, kept->columns, GM_TIMELINE_COLUMNS, &kept->column_count);
	if (!error)
		error = gm_ask_shapes(context, &shapes);
	for (size_t i = 0; !error && i < shapes.count; i++)
		error = take(strings, &shapes, &shapes.items[i], kept);
	return error;
}

static void code_shape(struct gm_codec *codec, struct gm_kept_shape *shape)
{
	unsigned kind = shape->kind;
	gm_code_enum(codec, &kind, GM_SHAPE_COUNT - 1);
	shape->kind = kind;
	gm_code_u32(codec, &shape->step);
	gm_code_u32(codec, &shape->first);
	gm_code_u32(codec, &shape->last);
	gm_code_u32(codec, &shape->count);
	gm_code_u64(codec, &shape->bytes);
	gm_code_u64(codec, &shape->blocks);
	gm_code_u64(codec, &shape->of);
	gm_code_string(codec, &shape->note);
	gm_code_string(codec, &shape->site);
}

static void code_column(struct gm_codec *codec, struct gm_column *column, struct gm_column *before)
{
	unsigned phase = column->phase;
	uint32_t length = column->last - column->first;
	gm_code_u32(codec, &column->first);
	gm_code_u32(codec, &length);
	column->last = column->first + length;
	gm_code_difference(codec, &column->allocated, &before->allocated);
	gm_code_difference(codec, &column->reserved, &before->reserved);
	gm_code_u32(codec, &column->step);
	gm_code_enum(codec, &phase, GM_PHASE_COUNT - 1);
	column->phase = phase;
	gm_code_bool(codec, &column->peak);
}

static void code_timeline(struct gm_codec *codec, void *section)
{
	struct gm_timeline_section *timeline = section;
	struct gm_column before = {0};
	gm_code_array(codec, &timeline->shapes, GM_SHAPE_COUNT, code_shape);
	size_t count = gm_code_count(codec, timeline->column_count, GM_TIMELINE_COLUMNS);
	timeline->column_count = count;
	for (size_t i = 0; i < count && !codec->bad; i++)
		code_column(codec, &timeline->columns[i], &before);
}

static void deinit_timeline(void *section)
{
	gm_array_deinit(&((struct gm_timeline_section *)section)->shapes);
}

const struct gm_section_kind gm_section_timeline = {
        sizeof(struct gm_timeline_section), read_timeline, code_timeline, deinit_timeline};
