#include "render/timeline.h"

#include <inttypes.h>
#include <string.h>

#include "base/put.h"
#include "render/collectives.h"
#include "render/json.h"
#include "render/names.h"
#include "render/text.h"
#include "ask/recording/place.h"
#include "ask/recording/shapes.h"

enum { ROWS = 12, DEFAULT_WIDTH = 100 };

/* One letter for each phase, for the row below the plot, and its colour in the terminal's basic
 * palette. */
static const struct {
	char letter;
	int colour;
} phases[GM_PHASE_COUNT] = {
        [GM_PHASE_OTHER] = {'.', 37},
        [GM_PHASE_INIT] = {'i', 34},
        [GM_PHASE_DATA] = {'d', 36},
        [GM_PHASE_FORWARD] = {'f', 33},
        [GM_PHASE_RECOMPUTE] = {'r', 95},
        [GM_PHASE_BACKWARD] = {'b', 31},
        [GM_PHASE_OPTIMIZER] = {'o', 32},
        [GM_PHASE_ZERO_GRAD] = {'z', 35},
        [GM_PHASE_EVALUATION] = {'e', 96},
        [GM_PHASE_PREFILL] = {'p', 93},
        [GM_PHASE_DECODE] = {'c', 94},
};

size_t gm_plot_columns(int columns)
{
	int width = columns ? columns : DEFAULT_WIDTH;
	width = width < GM_PLOT_COLUMNS_MIN ? GM_PLOT_COLUMNS_MIN : width;
	size_t width_left = (size_t)(width - GM_PLOT_LABEL);
	return width_left < GM_PLOT_COLUMNS_MAX ? width_left : GM_PLOT_COLUMNS_MAX;
}

static void put_colour(const struct gm_style *style, int colour, int *now, FILE *out)
{
	if (!style->colors || *now == colour)
		return;
	gm_put(out, "\033[%dm", colour);
	*now = colour;
}

/* The cell of a column in a row whose bottom is `low` and whose height is `height` bytes. */
static const char *cell(const struct gm_column *column, double low, double height)
{
	static const char *const eighths[] = {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585",
	        "\u2586", "\u2587", "\u2588"};
	double filled = ((double)column->allocated - low) / height;
	double reserved = ((double)column->reserved - low) / height;
	if (filled >= 1)
		return eighths[8];
	if (filled * 8 >= 0.5)
		return eighths[(int)(filled * 8 + 0.5) < 8 ? (int)(filled * 8 + 0.5) : 8];
	return reserved > 0 && reserved <= 1 ? "\u00b7" : " ";
}

static void put_plot(
        const struct gm_column *columns, size_t count, const struct gm_style *style, FILE *out)
{
	uint64_t top = 1;
	for (size_t i = 0; i < count; i++) {
		top = columns[i].allocated > top ? columns[i].allocated : top;
		top = columns[i].reserved > top ? columns[i].reserved : top;
	}
	double height = (double)top / ROWS;
	for (int row = ROWS; row-- > 0;) {
		char size[GM_SIZE_TEXT] = "";
		int colour = 0;
		if (row == ROWS - 1 || row % 4 == 3)
			gm_text_size((uint64_t)(height * (row + 1)), size);
		gm_put(out, "%10s ", size);
		for (size_t i = 0; i < count; i++) {
			const char *text = cell(&columns[i], height * row, height);
			put_colour(style, phases[columns[i].phase].colour, &colour, out);
			gm_put(out, "%s", text);
		}
		fputs(style->colors ? "\033[0m\n" : "\n", out);
	}
}

static void put_rulers(const struct gm_column *columns, size_t count, FILE *out)
{
	char steps[GM_PLOT_COLUMNS_MAX + 16];
	size_t peak = 0;
	gm_put(out, "%10s ", "phase");
	for (size_t i = 0; i < count; i++) {
		gm_put(out, "%c", phases[columns[i].phase].letter);
		peak = columns[i].peak ? i : peak;
	}
	memset(steps, ' ', sizeof(steps));
	size_t free_from = 0;
	for (size_t i = 0; i < count; i++) {
		char number[12];
		if (!columns[i].step || (i && columns[i - 1].step == columns[i].step))
			continue;
		int length = snprintf(number, sizeof(number), "|%u", columns[i].step);
		if (i < free_from || i + (size_t)length > count)
			continue;
		memcpy(steps + i, number, (size_t)length);
		free_from = i + (size_t)length + 1;
	}
	size_t end = count;
	while (end && steps[end - 1] == ' ')
		end--;
	gm_put(out, "\n%10s %.*s\n", "step", (int)end, steps);
	gm_put(out, "%10s %*s^\n", "peak", (int)peak, "");
}

static void put_legend(const struct gm_column *columns, size_t count, FILE *out)
{
	bool seen[GM_PHASE_COUNT] = {false};
	const char *comma = "";
	for (size_t i = 0; i < count; i++)
		seen[columns[i].phase] = true;
	gm_put(out, "%10s ", "");
	for (int i = 0; i < GM_PHASE_COUNT; i++) {
		if (!seen[i])
			continue;
		gm_put(out, "%s%c %s", comma, phases[i].letter, gm_phase_name((enum gm_phase)i));
		comma = ", ";
	}
	fputs("; \u00b7 reserved\n", out);
}

/* "; the largest at train.py:7 in train", "; the largest is layers.0.weight, at train.py:7 in
 * train", or nothing. */
static void put_line(const struct gm_shapes *shapes, const struct gm_shape *shape, FILE *out)
{
	struct gm_frame_place place;
	char named[GM_NAMES_TEXT] = "";
	bool many = shape->blocks > 1;
	if (shape->largest)
		gm_text_names(shapes->model, shape->largest - 1, named);
	bool placed =
	        shape->stack && gm_place_site(gm_model_log(shapes->model), shape->stack, &place);
	if (*named)
		gm_put(out, "; %s%s%s", many ? "the largest is " : "", named, placed ? "," : "");
	else if (placed && many)
		fputs("; the largest", out);
	else if (placed)
		fputs(";", out);
	if (placed)
		gm_put(out, " at %s:%u in %s", gm_text_path(place.file), place.line,
		        place.function);
}

/* ": as much as the parameters", ": 2.0 times the parameters", or nothing. */
static void put_ratio(const struct gm_shape *shape, FILE *out)
{
	if (!shape->of)
		return;
	double ratio = (double)shape->bytes / (double)shape->of;
	if (ratio > 0.97 && ratio < 1.03)
		fputs(", as much as the parameters", out);
	else if (ratio >= 0.1)
		gm_put(out, ", %.1f times the parameters", ratio);
}

/* An embedding is recognized by its operator; the output head by being the first after the logits.
 * */
static const char *gradient_name(const struct gm_shapes *shapes, const struct gm_shape *shape)
{
	bool logits = false;
	if (strncmp(shape->note, "embedding", 9) == 0)
		return "embedding's gradient";
	/* torch/csrc/autograd/input_buffer.cpp: gradients from several users of a weight are added
	 * */
	if (strncmp(shape->note, "add_", 4) == 0)
		return "gradient of weights used twice (tied)";
	for (size_t i = 0; i < shapes->count; i++)
		logits |= shapes->items[i].kind == GM_SHAPE_SLAB && shapes->items[i].logits;
	if (shape->kind == GM_SHAPE_LAST_GRADIENT)
		return "last large gradient, of a layer near the input";
	return logits ? "output head's gradient" : "first large gradient, of a layer near the loss";
}

static void put_shape(const struct gm_shapes *shapes, const struct gm_shape *shape, FILE *out)
{
	char size[GM_SIZE_TEXT], part[GM_SIZE_TEXT];
	gm_text_size(shape->bytes, size);
	if (shape->kind == GM_SHAPE_SLAB && shape->last == GM_NO_EVENT)
		gm_put(out, "  #%u-    ", shape->first);
	else if (shape->first == shape->last)
		gm_put(out, "  #%u     ", shape->first);
	else
		gm_put(out, "  #%u-%u  ", shape->first, shape->last);
	switch (shape->kind) {
	case GM_SHAPE_PARAMETERS:
		gm_put(out, "the band below everything: %s of parameters and buffers", size);
		break;
	case GM_SHAPE_OPTIMIZER_STATE:
		gm_put(out, "step %u makes the optimizer's state: %s", shape->step, size);
		put_ratio(shape, out);
		fputs(", kept from then on", out);
		break;
	case GM_SHAPE_REPEATS:
		gm_put(out, "step %u rises by %s above its start", shape->step, size);
		if (shape->count > 1)
			gm_put(out, "; %u steps look the same", shape->count);
		break;
	case GM_SHAPE_FORWARD:
		gm_put(out, "forward rises: %s of activations in %" PRIu64 " block%s", size,
		        shape->blocks, gm_text_s(shape->blocks));
		if (shape->count)
			gm_put(out, " wait%s for backward", shape->blocks == 1 ? "s" : "");
		break;
	case GM_SHAPE_SLAB:
		gm_put(out, "the slab%s%s: one block of %s, %.0f %% of forward's rise",
		        shape->note[0] ? " of " : "", shape->note, size,
		        100.0 * (double)shape->bytes / (double)shape->of);
		break;
	case GM_SHAPE_SOFTMAX:
		gm_put(out, "the loss's softmax: %s in addition to the slab", size);
		if (shape->of)
			gm_put(out, ", with a short spike of %s in it",
			        gm_text_size(shape->of, part));
		break;
	case GM_SHAPE_SPIKE:
		gm_put(out,
		        "the spike at the step's peak: %s of temporaries in %" PRIu64 " block%s",
		        size, shape->blocks, gm_text_s(shape->blocks));
		break;
	case GM_SHAPE_CLIFF:
		gm_put(out, "the cliff: backward releases %s at once", size);
		break;
	case GM_SHAPE_GRADIENTS:
		gm_put(out, "gradients rise: %s", size);
		put_ratio(shape, out);
		break;
	case GM_SHAPE_FIRST_GRADIENT:
	case GM_SHAPE_LAST_GRADIENT:
		gm_put(out, "the %s: %s%s%s", gradient_name(shapes, shape), size,
		        shape->note[0] ? ", by " : "", shape->note);
		break;
	case GM_SHAPE_COMMUNICATION:
		gm_put(out, "collectives move data through %s in %" PRIu64 " block%s", size,
		        shape->blocks, gm_text_s(shape->blocks));
		break;
	case GM_SHAPE_WAVES:
		gm_put(out, "%u waves: checkpoints compute activations again in backward",
		        shape->count);
		break;
	case GM_SHAPE_OPTIMIZER_TEMPORARIES:
		if (shape->count) {
			fputs("the optimizer takes no temporaries: it is fused, or works in place",
			        out);
			break;
		}
		gm_put(out, "the optimizer's temporaries: %s at once", size);
		put_ratio(shape, out);
		if (strcmp(shape->note, "_foreach_sqrt") == 0)
			fputs(": square roots of second moments (_foreach_sqrt)", out);
		else if (shape->note[0])
			gm_put(out, ", by %s", shape->note);
		break;
	case GM_SHAPE_ZERO_GRAD:
		gm_put(out, "zero_grad releases %s of gradients", size);
		break;
	case GM_SHAPE_STALE:
		gm_put(out, "%s of step %u stay%s until step %u replaces them", size, shape->step,
		        shape->blocks == 1 ? "s" : "", shape->step + 1);
		break;
	case GM_SHAPE_CACHED:
		gm_put(out,
		        "%s are reserved and free at the end of the step: the next step reuses "
		        "them",
		        size);
		if (!shape->count && shape->blocks)
			gm_put(out,
			        "; the last step's %" PRIu64 " blocks needed nothing new from CUDA",
			        shape->blocks);
		break;
	case GM_SHAPE_SKIPPED:
		gm_put(out, "step %u was skipped: found inf", shape->step);
		if (shape->count > 1)
			gm_put(out, ", and %u more: `gpumem amp` shows which", shape->count - 1);
		break;
	default:
		break;
	}
	if (shape->kind != GM_SHAPE_OPTIMIZER_TEMPORARIES &&
	        shape->kind != GM_SHAPE_OPTIMIZER_STATE && shape->kind != GM_SHAPE_ZERO_GRAD &&
	        shape->kind != GM_SHAPE_GRADIENTS && shape->kind != GM_SHAPE_FORWARD &&
	        shape->kind != GM_SHAPE_FIRST_GRADIENT && shape->kind != GM_SHAPE_LAST_GRADIENT)
		put_line(shapes, shape, out);
	fputc('\n', out);
}

void gm_render_shapes_text(const struct gm_shapes *shapes, FILE *out)
{
	for (size_t i = 0; i < shapes->count; i++)
		put_shape(shapes, &shapes->items[i], out);
}

struct gm_error *gm_render_timeline_text(const struct gm_shapes *shapes,
        const struct gm_collectives *collectives, const struct gm_column *columns, size_t count,
        const struct gm_style *style, FILE *out)
{
	if (shapes->device == SIZE_MAX || !count) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	const struct gm_model_device *device = gm_model_device(shapes->model, shapes->device);
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT];
	gm_put(out, "%s: allocated over %" PRIu64 " event%s, peak %s at #%u\n",
	        gm_text_device(device->type, device->index, name),
	        gm_log_event_count(gm_model_log(shapes->model)),
	        gm_text_s(gm_log_event_count(gm_model_log(shapes->model))),
	        gm_text_size(device->peak.allocated, size), device->peak_event);
	put_plot(columns, count, style, out);
	put_rulers(columns, count, out);
	put_legend(columns, count, out);
	gm_render_shapes_text(shapes, out);
	gm_put_collectives_of_step(collectives, shapes->step, out);
	return NULL;
}

static json_t *shape_json(const struct gm_shapes *shapes, const struct gm_shape *shape)
{
	json_t *value = json_object();
	struct gm_frame_place place;
	json_object_set_new(value, "kind", json_string(gm_shape_name(shape->kind)));
	json_object_set_new(value, "step", shape->step ? json_integer(shape->step) : json_null());
	json_object_set_new(value, "first_event", json_integer(shape->first));
	json_object_set_new(value, "last_event", gm_json_event_or_null(shape->last));
	json_object_set_new(value, "bytes", json_integer((json_int_t)shape->bytes));
	json_object_set_new(value, "blocks", json_integer((json_int_t)shape->blocks));
	json_object_set_new(value, "count", json_integer(shape->count));
	json_object_set_new(value, "of", json_integer((json_int_t)shape->of));
	json_object_set_new(value, "note", shape->note[0] ? json_string(shape->note) : json_null());
	if (shape->stack && gm_place_site(gm_model_log(shapes->model), shape->stack, &place))
		json_object_set_new(
		        value, "site", gm_json_place(place.file, place.line, place.function));
	if (shape->largest)
		gm_json_set_names(value, shapes->model, shape->largest - 1);
	return value;
}

struct gm_error *gm_render_timeline_json(const struct gm_shapes *shapes,
        const struct gm_collectives *collectives, const struct gm_column *columns, size_t count,
        FILE *out)
{
	json_t *value = json_object(), *all = json_array(), *found = json_array();
	json_object_set_new(value, "device",
	        shapes->device == SIZE_MAX
	                ? json_null()
	                : json_integer(gm_model_device(shapes->model, shapes->device)->index));
	for (size_t i = 0; i < count; i++) {
		const struct gm_column *column = &columns[i];
		json_array_append_new(
		        all, json_pack("{s:i, s:i, s:I, s:I, s:o, s:s}", "first_event",
		                     (int)column->first, "last_event", (int)column->last,
		                     "allocated", (json_int_t)column->allocated, "reserved",
		                     (json_int_t)column->reserved, "step",
		                     column->step ? json_integer(column->step) : json_null(),
		                     "phase", gm_phase_name(column->phase)));
	}
	for (size_t i = 0; i < shapes->count; i++)
		json_array_append_new(found, shape_json(shapes, &shapes->items[i]));
	json_object_set_new(value, "columns", all);
	json_object_set_new(value, "shapes", found);
	if (collectives)
		json_object_set_new(value, "collectives", gm_json_collective_groups(collectives));
	return gm_json_write(value, true, out);
}
