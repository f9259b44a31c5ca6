#include "render/picture_plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/put.h"
#include "base/size.h"
#include "render/svg.h"

enum { BOTTOM = GM_PICTURE_AREA_HEIGHT, RIGHT = GM_PICTURE_LEFT + GM_PICTURE_AREA_WIDTH };

const int gm_picture_order[GM_BUCKET_SUMS] = {
        GM_CATEGORY_PARAMETER,
        GM_CATEGORY_BUFFER,
        GM_CATEGORY_OPTIMIZER_STATE,
        GM_CATEGORY_KV_CACHE,
        GM_CATEGORY_GRADIENT,
        GM_CATEGORY_INPUT,
        GM_CATEGORY_ACTIVATION,
        GM_CATEGORY_COMMUNICATION,
        GM_CATEGORY_WORKSPACE,
        GM_CATEGORY_TEMPORARY,
        GM_CATEGORY_UNKNOWN,
        GM_BUCKET_REST,
};

/* view/page/style.css has the same colours, with the reasons. */
static const struct {
	const char *words, *colour;
} sums[GM_BUCKET_SUMS] = {
        [GM_CATEGORY_PARAMETER] = {"parameter", "#1f7a3d"},
        [GM_CATEGORY_BUFFER] = {"buffer", "#66b88a"},
        [GM_CATEGORY_OPTIMIZER_STATE] = {"optimizer state", "#d9a520"},
        [GM_CATEGORY_KV_CACHE] = {"kv cache", "#8a6d1d"},
        [GM_CATEGORY_GRADIENT] = {"gradient", "#2b4fc4"},
        [GM_CATEGORY_INPUT] = {"input", "#6cc3e0"},
        [GM_CATEGORY_ACTIVATION] = {"activation", "#d5433b"},
        [GM_CATEGORY_COMMUNICATION] = {"communication", "#157f8f"},
        [GM_CATEGORY_WORKSPACE] = {"workspace", "#a0694b"},
        [GM_CATEGORY_TEMPORARY] = {"temporary", "#a98bdf"},
        [GM_CATEGORY_UNKNOWN] = {"unknown", "#9aa1a9"},
        [GM_BUCKET_REST] = {"from before the recording", "#c7ccd2"},
};

static const char *const phase_colours[GM_PHASE_COUNT] = {
        [GM_PHASE_OTHER] = "#c7ccd2",
        [GM_PHASE_INIT] = "#6b7480",
        [GM_PHASE_DATA] = "#6cc3e0",
        [GM_PHASE_FORWARD] = "#e0b13a",
        [GM_PHASE_RECOMPUTE] = "#e07f3a",
        [GM_PHASE_BACKWARD] = "#b5443d",
        [GM_PHASE_OPTIMIZER] = "#3f9a5c",
        [GM_PHASE_ZERO_GRAD] = "#a98bdf",
        [GM_PHASE_EVALUATION] = "#157f8f",
        [GM_PHASE_PREFILL] = "#d9a520",
        [GM_PHASE_DECODE] = "#2b4fc4",
};

const char *gm_picture_words(int sum)
{
	return sums[sum].words;
}

const char *gm_picture_colour(int sum)
{
	return sums[sum].colour;
}

const char *gm_picture_phase_colour(enum gm_phase phase)
{
	return phase_colours[phase];
}

static double x_of(const struct gm_picture_plot *plot, double event)
{
	return GM_PICTURE_LEFT + event / (double)plot->picture->events * GM_PICTURE_AREA_WIDTH;
}

static double y_of(const struct gm_picture_plot *plot, uint64_t bytes)
{
	return plot->top + BOTTOM * (1 - (double)bytes / (double)plot->bytes);
}

/* The beginning of a column; that after the last one is the end of the recording. */
static double column_x(const struct gm_picture_plot *plot, size_t column)
{
	uint64_t first = (uint64_t)column * plot->picture->columns.each;
	return x_of(plot, (double)(first < plot->picture->events ? first : plot->picture->events));
}

/* The smallest number of 1, 2 or 5 and zeros that is not smaller. */
static double round_step(double least)
{
	double power = pow(10, floor(log10(least)));
	return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

static void put_line(const struct gm_picture_plot *plot, double x1, double y1, double x2, double y2)
{
	fputs("<line", plot->out);
	gm_svg_set("x1", x1, plot->out);
	gm_svg_set("y1", y1, plot->out);
	gm_svg_set("x2", x2, plot->out);
	gm_svg_set("y2", y2, plot->out);
}

static void begin_text(const struct gm_picture_plot *plot, double x, double y)
{
	fputs("<text", plot->out);
	gm_svg_set("x", x, plot->out);
	gm_svg_set("y", y, plot->out);
}

/* --- scales ----------------------------------------------------------------------------------- */

static void draw_bytes(const struct gm_picture_plot *plot)
{
	double unit = pow(1024, fmax(0, floor(log((double)plot->bytes) / log(1024))));
	double step = fmax(1, round_step((double)plot->bytes / unit / (BOTTOM / 56.0)) * unit);
	fputs("<g id=\"scale\" stroke=\"#e6e8eb\" fill=\"#565d66\">\n", plot->out);
	for (double bytes = 0; bytes <= (double)plot->bytes; bytes += step) {
		char size[GM_SIZE_TEXT];
		double y = y_of(plot, (uint64_t)bytes);
		put_line(plot, GM_PICTURE_LEFT, y, RIGHT, y);
		fputs("/>", plot->out);
		begin_text(plot, GM_PICTURE_LEFT - 6, y + 4);
		fputs(" text-anchor=\"end\" stroke=\"none\">", plot->out);
		gm_svg_text(GM_SIZE_TEXT, plot->out, "%s", gm_text_size((uint64_t)bytes, size));
		fputs("</text>\n", plot->out);
	}
	fputs("</g>\n", plot->out);
}

static void draw_events(const struct gm_picture_plot *plot)
{
	uint64_t events = plot->picture->events;
	uint64_t step = (uint64_t)fmax(1, round_step((double)events / 10));
	fputs("<g id=\"events\" fill=\"#565d66\">\n", plot->out);
	for (uint64_t event = 0; event < events; event += step) {
		double x = x_of(plot, (double)event);
		if (x > RIGHT - 60)
			break;
		begin_text(plot, x, plot->top + BOTTOM + 26);
		gm_put(plot->out, "%s>#%" PRIu64 "</text>", event ? " text-anchor=\"middle\"" : "",
		        event);
	}
	begin_text(plot, RIGHT, plot->top + BOTTOM + 26);
	fputs(" text-anchor=\"end\">event</text>\n</g>\n", plot->out);
}

/* --- areas ------------------------------------------------------------------------------------ */

/* Along the heights of the columns from left to right, from the current point. */
static void trace(const struct gm_picture_plot *plot, const uint64_t *heights)
{
	size_t count = plot->picture->columns.count;
	for (size_t i = 1; i < count; i++) {
		if (heights[i] == heights[i - 1])
			continue;
		fputc('H', plot->out);
		gm_svg_number(column_x(plot, i), plot->out);
		fputc('V', plot->out);
		gm_svg_number(y_of(plot, heights[i]), plot->out);
	}
	fputc('H', plot->out);
	gm_svg_number(column_x(plot, count), plot->out);
}

/* Along the lower edge, back to the beginning of the area. */
static void trace_back(const struct gm_picture_plot *plot, const uint64_t *heights)
{
	size_t i = plot->picture->columns.count - 1;
	fputc('V', plot->out);
	gm_svg_number(y_of(plot, heights[i]), plot->out);
	for (; i > 0; i--) {
		if (heights[i - 1] == heights[i])
			continue;
		fputc('H', plot->out);
		gm_svg_number(column_x(plot, i), plot->out);
		fputc('V', plot->out);
		gm_svg_number(y_of(plot, heights[i - 1]), plot->out);
	}
	fputc('H', plot->out);
	gm_svg_number(GM_PICTURE_LEFT, plot->out);
	fputc('Z', plot->out);
}

static void begin_path(const struct gm_picture_plot *plot, uint64_t height)
{
	fputs(" d=\"M", plot->out);
	gm_svg_number(GM_PICTURE_LEFT, plot->out);
	fputc(' ', plot->out);
	gm_svg_number(y_of(plot, height), plot->out);
}

static void put_sum_title(const struct gm_picture_plot *plot, int sum)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	uint64_t bytes = plot->picture->peak[sum];
	gm_put(plot->out, "<title>%s: %s (%s bytes) at the peak</title>", sums[sum].words,
	        gm_text_size(bytes, size), gm_text_grouped(bytes, exact));
}

/* `floor` and `below` have one entry for each column; `below` is raised to the upper edge. */
static void draw_area(const struct gm_picture_plot *plot, int sum, uint64_t *floor, uint64_t *below)
{
	const struct gm_buckets *columns = &plot->picture->columns;
	bool any = false;
	for (size_t i = 0; i < columns->count; i++) {
		floor[i] = below[i];
		below[i] += columns->items[i].sums[sum];
		any |= columns->items[i].sums[sum] != 0;
	}
	if (!any)
		return;
	const char *name = sum == GM_BUCKET_REST ? "rest" : gm_category_name((enum gm_category)sum);
	gm_put(plot->out, "<path data-category=\"%s\" data-at-peak=\"%" PRIu64 "\" fill=\"%s\"",
	        name, plot->picture->peak[sum], sums[sum].colour);
	begin_path(plot, below[0]);
	trace(plot, below);
	trace_back(plot, floor);
	fputs("\">", plot->out);
	put_sum_title(plot, sum);
	fputs("</path>\n", plot->out);
}

static void draw_areas(const struct gm_picture_plot *plot)
{
	size_t count = plot->picture->columns.count;
	uint64_t *heights =
	        calloc(2 * count, sizeof(*heights)); /* NULL: this was recorded, and is reported */
	fputs("<g id=\"categories\">\n", plot->out);
	for (int i = 0; heights && i < GM_BUCKET_SUMS; i++)
		draw_area(plot, gm_picture_order[i], heights, heights + count);
	fputs("</g>\n", plot->out);
	free(heights);
}

static void draw_reserved(const struct gm_picture_plot *plot)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	const struct gm_picture *picture = plot->picture;
	uint64_t most = gm_model_device(picture->model, picture->device)->peak.reserved;
	gm_put(plot->out,
	        "<path id=\"reserved\" data-peak=\"%" PRIu64
	        "\" fill=\"none\" stroke=\"#6b7480\" stroke-width=\"1.5\"",
	        most);
	begin_path(plot, picture->reserved[0]);
	trace(plot, picture->reserved);
	gm_put(plot->out, "\"><title>reserved: at most %s (%s bytes)</title></path>\n",
	        gm_text_size(most, size), gm_text_grouped(most, exact));
}

/* --- steps and phases ------------------------------------------------------------------------- */

/* The lines and numbers of steps, for numbers that do not overlap. */
static void draw_steps(const struct gm_picture_plot *plot)
{
	const struct gm_model *model = plot->picture->model;
	double spacing = (double)GM_PICTURE_AREA_WIDTH / fmax(1, gm_model_step_count(model));
	uint32_t each = spacing >= 46 ? 1 : (uint32_t)fmin(round_step(46 / spacing), 1e9);
	uint32_t before = 0;
	double free_from = 0;
	fputs("<g id=\"steps\" stroke=\"#b9c0c8\" fill=\"#565d66\">\n", plot->out);
	for (size_t i = 0; i < gm_model_run_count(model); i++) {
		struct gm_model_run run = gm_model_run(model, i);
		bool begins = run.step && run.step != before;
		double x = x_of(plot, run.first);
		before = run.step ? run.step : before;
		if (!begins || run.step % each || x < free_from || x > RIGHT - 20)
			continue;
		char number[GM_SIZE_TEXT];
		int length = snprintf(
		        number, sizeof(number), spacing >= 70 ? "step %u" : "%u", run.step);
		put_line(plot, x, plot->top - GM_PICTURE_STEPS_HEIGHT + 4, x, plot->top + BOTTOM);
		gm_put(plot->out, " data-step=\"%u\" data-event=\"%u\"/>", run.step, run.first);
		begin_text(plot, x + 4, plot->top - 6);
		gm_put(plot->out, " stroke=\"none\">%s</text>\n", number);
		free_from = x + 8 + length * GM_PICTURE_CHARACTER;
	}
	fputs("</g>\n", plot->out);
}

static void put_phase(
        const struct gm_picture_plot *plot, enum gm_phase phase, size_t from, size_t end)
{
	fputs("<rect", plot->out);
	gm_svg_set("x", column_x(plot, from), plot->out);
	gm_svg_set("y", plot->top + BOTTOM + 2, plot->out);
	gm_svg_set("width", column_x(plot, end) - column_x(plot, from), plot->out);
	gm_put(plot->out, " height=\"9\" fill=\"%s\"><title>%s</title></rect>\n",
	        phase_colours[phase], gm_phase_name(phase));
}

/* The phase of each column's maximum. */
static void draw_phases(struct gm_picture_plot *plot)
{
	const struct gm_buckets *columns = &plot->picture->columns;
	size_t begun = 0;
	enum gm_phase before = GM_PHASE_OTHER;
	fputs("<g id=\"phases\">\n", plot->out);
	for (size_t i = 0; i <= columns->count; i++) {
		enum gm_phase phase = GM_PHASE_OTHER;
		if (i < columns->count)
			phase = gm_model_phase(plot->picture->model,
			        (uint64_t)i * columns->each + columns->items[i].at);
		if (i && (i == columns->count || phase != before)) {
			put_phase(plot, before, begun, i);
			plot->phases[before] = true;
			begun = i;
		}
		before = phase;
	}
	fputs("</g>\n", plot->out);
}

/* --- marks ------------------------------------------------------------------------------------ */

/* A text at a line at x, on a background; on the left side if there is no space on the right. */
static void put_label(const struct gm_picture_plot *plot, double x, double y, const char *colour,
        const char *text)
{
	double width = 0;
	for (const char *at = text; *at; at++)
		width += GM_PICTURE_CHARACTER;
	double left = x + 5 + width < RIGHT ? x + 5 : x - 5 - width;
	fputs("<rect", plot->out);
	gm_svg_set("x", left - 2, plot->out);
	gm_svg_set("y", y - 12, plot->out);
	gm_svg_set("width", width + 4, plot->out);
	fputs(" height=\"16\" fill=\"#ffffff\" fill-opacity=\"0.8\" stroke=\"none\"/>", plot->out);
	begin_text(plot, left, y);
	gm_put(plot->out, " fill=\"%s\" stroke=\"none\">%s</text>\n", colour, text);
}

/* One line for all marks of a column. */
static void draw_ooms(const struct gm_picture_plot *plot)
{
	const struct gm_buckets *columns = &plot->picture->columns;
	uint64_t column = UINT64_MAX;
	double free_from = 0;
	fputs("<g id=\"ooms\" stroke=\"#c4001a\">\n", plot->out);
	for (size_t i = 0; i < columns->oom.count; i++) {
		char size[GM_SIZE_TEXT];
		struct gm_bucket_change oom = columns->oom.items[i];
		double x = x_of(plot, oom.event + 0.5);
		if (oom.event / columns->each == column)
			continue;
		column = oom.event / columns->each;
		put_line(plot, x, plot->top, x, plot->top + BOTTOM);
		gm_put(plot->out,
		        " data-event=\"%u\" data-bytes=\"%" PRIu64
		        "\"><title>out of memory: %s asked for at #%u</title></line>\n",
		        oom.event, oom.bytes, gm_text_size(oom.bytes, size), oom.event);
		if (x < free_from)
			continue;
		put_label(plot, x, plot->top + 34, "#c4001a", "out of memory");
		free_from = x + 14 * GM_PICTURE_CHARACTER;
	}
	fputs("</g>\n", plot->out);
}

static void draw_peak(const struct gm_picture_plot *plot)
{
	const struct gm_picture *picture = plot->picture;
	const struct gm_model_device *device = gm_model_device(picture->model, picture->device);
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED], label[2 * GM_SIZE_TEXT];
	if (device->peak_event == GM_NO_EVENT)
		return;
	double x = x_of(plot, device->peak_event + 0.5), y = y_of(plot, device->peak.allocated);
	fputs("<g id=\"peak\" stroke=\"#1b1f24\">\n", plot->out);
	put_line(plot, x, plot->top, x, plot->top + BOTTOM);
	gm_put(plot->out,
	        " stroke-dasharray=\"4 3\"><title>peak: %s (%s bytes) after #%u</title></line>\n",
	        gm_text_size(device->peak.allocated, size),
	        gm_text_grouped(device->peak.allocated, exact), device->peak_event);
	fputs("<circle", plot->out);
	gm_svg_set("cx", x, plot->out);
	gm_svg_set("cy", y, plot->out);
	gm_put(plot->out,
	        " r=\"3\" fill=\"#ffffff\" data-event=\"%u\" data-bytes=\"%" PRIu64 "\"/>\n",
	        device->peak_event, device->peak.allocated);
	snprintf(label, sizeof(label), "peak %s", size);
	put_label(plot, x, plot->top + 14, "#1b1f24", label);
	fputs("</g>\n", plot->out);
}

void gm_picture_draw(struct gm_picture_plot *plot)
{
	draw_bytes(plot);
	draw_areas(plot);
	draw_reserved(plot);
	draw_steps(plot);
	draw_phases(plot);
	draw_ooms(plot);
	draw_peak(plot);
	draw_events(plot);
}
