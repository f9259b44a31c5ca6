#include "render/picture.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "ask/recording/place.h"
#include "base/put.h"
#include "render/answers.h"
#include "render/picture_plot.h"
#include "render/svg.h"
#include "render/text.h"

/* In pixels; for text, the maximum number of characters. */
enum { MARGIN = 16, LINE = 20, SWATCH = 12, NAME = 80, FULL = 1024, GAP = 140 };

/* Entries of a legend, row by row. */
struct legend {
	FILE *out;
	double x, y;
};

static void put_text(double x, double y, const char *more, FILE *out)
{
	fputs("<text", out);
	gm_svg_set("x", x, out);
	gm_svg_set("y", y, out);
	gm_put(out, "%s>", more);
}

/* The height of a colour sample and its text; for our own legend only. */
static void put_entry(struct legend *legend, const char *colour, int height, const char *words)
{
	double width = SWATCH + 5 + (double)strlen(words) * GM_PICTURE_CHARACTER + 10;
	if (legend->x + width > GM_PICTURE_WIDTH - MARGIN && legend->x > GM_PICTURE_LEFT) {
		legend->x = GM_PICTURE_LEFT;
		legend->y += LINE;
	}
	fputs("<rect", legend->out);
	gm_svg_set("x", legend->x, legend->out);
	gm_svg_set("y", legend->y - (SWATCH + height) / 2.0 + 2, legend->out);
	gm_put(legend->out, " width=\"%d\" height=\"%d\" fill=\"%s\"/>", SWATCH, height, colour);
	put_text(legend->x + SWATCH + 5, legend->y, "", legend->out);
	gm_put(legend->out, "%s</text>\n", words);
	legend->x += width;
}

static void put_begin_of_legend(struct legend *legend, const char *id, const char *words)
{
	gm_put(legend->out, "<g id=\"%s\" fill=\"#1b1f24\">\n", id);
	put_text(GM_PICTURE_LEFT - 6, legend->y, " text-anchor=\"end\" fill=\"#565d66\"",
	        legend->out);
	gm_put(legend->out, "%s</text>\n", words);
}

static bool is_drawn(const struct gm_picture *picture, int sum)
{
	for (size_t i = 0; i < picture->columns.count; i++)
		if (picture->columns.items[i].sums[sum])
			return true;
	return false;
}

/* The parts of the peak, with their colours. */
static void put_categories(const struct gm_picture *picture, struct legend *legend)
{
	put_begin_of_legend(legend, "legend", "at the peak");
	for (int i = 0; i < GM_BUCKET_SUMS; i++) {
		int sum = gm_picture_order[i];
		char size[GM_SIZE_TEXT], words[96];
		if (!is_drawn(picture, sum))
			continue;
		snprintf(words, sizeof(words), "%s %s", gm_picture_words(sum),
		        gm_text_size(picture->peak[sum], size));
		put_entry(legend, gm_picture_colour(sum), SWATCH, words);
	}
	put_entry(legend, "#6b7480", 2, "reserved");
	fputs("</g>\n", legend->out);
}

static void put_phases(const struct gm_picture_plot *plot, struct legend *legend)
{
	put_begin_of_legend(legend, "phase-legend", "phases");
	for (int i = 0; i < GM_PHASE_COUNT; i++)
		if (plot->phases[i])
			put_entry(legend, gm_picture_phase_colour((enum gm_phase)i), SWATCH,
			        gm_phase_name((enum gm_phase)i));
	fputs("</g>\n", legend->out);
}

/* "cuda:0: peak 4.10 GiB (4,402,614,784 bytes) after event #15, in step 2 (forward); …" */
static void put_facts(const struct gm_picture *picture, double y, FILE *out)
{
	const struct gm_model *model = picture->model;
	const struct gm_model_device *device = gm_model_device(model, picture->device);
	char name[GM_SIZE_TEXT], size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED],
	        events[GM_SIZE_GROUPED];
	put_text(MARGIN, y, " id=\"facts\" font-size=\"13\" fill=\"#565d66\"", out);
	gm_put(out, "%s: ", gm_text_device(device->type, device->index, name));
	if (device->peak_event != GM_NO_EVENT) {
		uint32_t step = gm_model_step(model, device->peak_event);
		gm_put(out, "peak %s (%s bytes) after event #%u",
		        gm_text_size(device->peak.allocated, size),
		        gm_text_grouped(device->peak.allocated, exact), device->peak_event);
		if (step)
			gm_put(out, ", in step %u", step);
		gm_put(out, " (%s); ", gm_phase_name(gm_model_phase(model, device->peak_event)));
	}
	gm_put(out, "%s event%s", gm_text_grouped(picture->events, events),
	        gm_text_s(picture->events));
	if (picture->devices > 1)
		gm_put(out, "; the recording has %zu devices", picture->devices);
	fputs("</text>\n", out);
}

/* The same as the page's banner, on one line. */
static bool put_gaps(const struct gm_picture *picture, double y, FILE *out)
{
	const struct gm_info *info = &picture->info;
	/* for a recording that is not closed, the recorder has usually reported why */
	size_t more = info->gap_count ? info->gap_count : !info->closed;
	if (!more)
		return false;
	_cleanup_free_ char *gap = info->gap_count ? gm_render_gap(&info->gaps[0]) : NULL;
	put_text(MARGIN, y, " id=\"gaps\" font-size=\"13\" fill=\"#c4001a\"", out);
	gm_svg_text(GAP, out, "not complete: %s",
	        info->gap_count ? (gap ? gap : "") : "it still runs, or the recorder was killed");
	if (more > 1)
		gm_put(out, "; and %zu more", more - 1);
	fputs("</text>\n", out);
	return true;
}

static void put_name(const struct gm_picture *picture, FILE *out)
{
	const char *name = gm_place_base_name(gm_log_path(gm_model_log(picture->model)));
	fputs("<title>", out);
	gm_svg_text(FULL, out, "%s", name);
	fputs("</title>\n", out);
	put_text(MARGIN, 26, " font-size=\"16\" font-weight=\"bold\"", out);
	gm_svg_text(NAME, out, "%s", name);
	fputs("</text>\n", out);
}

/* Everything except the first and the last line, which need the final height. */
static double put_inside(const struct gm_picture *picture, FILE *out)
{
	double y = 26;
	put_name(picture, out);
	if (picture->device == SIZE_MAX || !picture->columns.count) {
		put_text(MARGIN, y + LINE, " id=\"facts\"", out);
		fputs("The recording contains no allocations.</text>\n", out);
		return y + 2 * LINE;
	}
	const struct gm_model_device *device = gm_model_device(picture->model, picture->device);
	uint64_t top = device->peak.reserved > device->peak.allocated ? device->peak.reserved
	                                                              : device->peak.allocated;
	put_facts(picture, y += LINE, out);
	if (put_gaps(picture, y + LINE, out))
		y += LINE;
	struct legend legend = {out, GM_PICTURE_LEFT, y + LINE + 8};
	put_categories(picture, &legend);
	struct gm_picture_plot plot = {
	        .picture = picture,
	        .out = out,
	        .top = legend.y + LINE + GM_PICTURE_STEPS_HEIGHT,
	        .bytes = top + top / 16 > top ? top + top / 16 : top + !top,
	};
	gm_put(out, "<g id=\"plot\" data-left=\"%d\" data-width=\"%d\" data-height=\"%d\"",
	        GM_PICTURE_LEFT, GM_PICTURE_AREA_WIDTH, GM_PICTURE_AREA_HEIGHT);
	gm_svg_set("data-top", plot.top, out);
	gm_put(out,
	        " data-bytes=\"%" PRIu64 "\" data-events=\"%" PRIu64 "\" data-columns=\"%zu\">\n",
	        plot.bytes, picture->events, picture->columns.count);
	gm_picture_draw(&plot);
	fputs("</g>\n", out);
	legend = (struct legend){out, GM_PICTURE_LEFT,
	        plot.top + GM_PICTURE_AREA_HEIGHT + GM_PICTURE_EVENTS_HEIGHT + 14};
	put_phases(&plot, &legend);
	return legend.y + MARGIN;
}

struct gm_error *gm_render_picture_svg(const struct gm_picture *picture, FILE *out)
{
	char *inside = NULL;
	size_t size;
	FILE *memory = open_memstream(&inside, &size);
	if (!memory)
		return &gm_error_no_memory;
	double height = put_inside(picture, memory);
	bool failed = fclose(memory) != 0;
	_cleanup_free_ char *text = inside;
	if (failed || !text)
		return &gm_error_no_memory;
	fputs("<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"", out);
	gm_svg_set("width", GM_PICTURE_WIDTH, out);
	gm_svg_set("height", height, out);
	gm_put(out, " viewBox=\"0 0 %d ", GM_PICTURE_WIDTH);
	gm_svg_number(height, out);
	fputs("\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1b1f24\">\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
	        out);
	fwrite(text, 1, size, out);
	fputs("</svg>\n", out);
	return NULL;
}
