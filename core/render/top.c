#include "render/top.h"
#include "render/group_text.h"
#include "render/groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ask/recording/place.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "base/size.h"

enum { LEAKS_SHOWN = 5, BAR = 40 };

static void put_devices(const struct gm_model *model, FILE *out)
{
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		char name[GM_SIZE_TEXT], used[GM_SIZE_TEXT], reserved[GM_SIZE_TEXT],
		        peak[GM_SIZE_TEXT];
		uint64_t most = device->peak.reserved > device->peak.allocated
		                        ? device->peak.reserved
		                        : device->peak.allocated;
		int filled = most ? (int)(device->now.allocated * BAR / most) : 0;
		gm_put(out, "%-8s [%.*s%*s] %s allocated",
		        gm_text_device(device->type, device->index, name), filled,
		        "########################################", BAR - filled, "",
		        gm_text_size(device->now.allocated, used));
		if (device->peak.reserved)
			gm_put(out, " of %s reserved",
			        gm_text_size(device->now.reserved, reserved));
		gm_put(out, ", peak %s", gm_text_size(device->peak.allocated, peak));
		if (device->ooms)
			gm_put(out, ", out of memory %" PRIu64 " times", device->ooms);
		fputc('\n', out);
	}
}

const char *gm_top_order_name(enum gm_top_order order)
{
	static const char *const names[] = {"size", "blocks", "line"};
	return names[order];
}

static int by_size(const struct gm_group *a, const struct gm_group *b)
{
	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static int by_blocks(const struct gm_group *a, const struct gm_group *b)
{
	return (a->blocks < b->blocks) - (a->blocks > b->blocks);
}

static int by_line(const struct gm_group *a, const struct gm_group *b)
{
	return strcmp(a->key, b->key);
}

/* Ties are in the order of the answer. */
static int compare(const void *left, const void *right, void *order)
{
	static int (*const compares[])(const struct gm_group *, const struct gm_group *) = {
	        by_size, by_blocks, by_line};
	const struct gm_group *a = *(const struct gm_group *const *)left,
	                      *b = *(const struct gm_group *const *)right;
	int compared = compares[*(const enum gm_top_order *)order](a, b);
	return compared ? compared : (a > b) - (a < b);
}

static size_t put_blocks(const struct gm_blocks *blocks, const struct gm_top_view *view, FILE *out)
{
	char size[GM_SIZE_TEXT];
	enum gm_top_order order = view->order;
	_cleanup_free_ const struct gm_group **rows =
	        calloc(blocks->group_count + 1, sizeof(*rows));
	size_t count = 0;
	for (size_t i = 0; rows && i < blocks->group_count; i++)
		if (!view->filter ||
		        strstr(gm_text_group(blocks->groups[i].kind, blocks->groups[i].key),
		                view->filter))
			rows[count++] = &blocks->groups[i];
	if (rows)
		qsort_r(rows, count, sizeof(*rows), compare, &order);
	fputs("\nby phase:", out);
	for (int i = 0; i < GM_PHASE_COUNT; i++)
		if (blocks->by_phase[i])
			gm_put(out, "  %s %s", gm_phase_name((enum gm_phase)i),
			        gm_text_size(blocks->by_phase[i], size));
	gm_put(out, "\n\n%12s  %7s  allocated at", "size", "blocks");
	if (count > view->rows || view->from)
		gm_put(out, "  (lines %zu to %zu of %zu)", count ? view->from + 1 : 0,
		        count - view->from < view->rows ? count : view->from + view->rows, count);
	fputc('\n', out);
	for (size_t i = view->from; i < count && i - view->from < view->rows; i++)
		gm_put(out, "%12s  %7" PRIu64 "  %s\n", gm_text_size(rows[i]->bytes, size),
		        rows[i]->blocks, gm_text_group(rows[i]->kind, rows[i]->key));
	return count;
}

static void put_leaks(const struct gm_leaks *leaks, FILE *out)
{
	for (size_t i = 0; i < leaks->count && i < LEAKS_SHOWN; i++) {
		const struct gm_leak *leak = &leaks->items[i];
		struct gm_frame_place place;
		char size[GM_SIZE_TEXT];
		uint64_t steps = (uint64_t)leaks->to - leaks->from + 1;
		if (i == 0)
			fputs("\ngrowing:\n", out);
		if (gm_place_site(gm_model_log(leaks->model), leak->stack, &place))
			gm_put(out, "%12s  a step  %s:%u in %s\n",
			        gm_text_size(leak->bytes / steps, size),
			        gm_place_base_name(place.file), place.line, place.function);
	}
}

size_t gm_render_top_text(const struct gm_top *top, int pid, double events_per_second,
        const struct gm_top_view *view, FILE *out)
{
	gm_put(out, "gpumem top  process %d  %s\n", pid, gm_log_source(gm_model_log(top->model)));
	gm_put(out, "%" PRIu64 " events", top->events);
	if (events_per_second >= 0)
		gm_put(out, ", %.0f/s", events_per_second);
	gm_put(out, ", step %u\n\n", gm_model_step_count(top->model));
	put_devices(top->model, out);
	size_t lines = put_blocks(&top->blocks, view, out);
	put_leaks(&top->growing, out);
	return lines;
}
