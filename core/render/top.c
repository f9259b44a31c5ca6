#include "render/top.h"
#include "render/group_text.h"
#include "render/groups.h"

#include <inttypes.h>

#include "ask/recording/place.h"
#include "base/put.h"
#include "base/size.h"

enum { LINES_SHOWN = 12, LEAKS_SHOWN = 5, BAR = 40 };

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

static void put_blocks(const struct gm_blocks *blocks, FILE *out)
{
	char size[GM_SIZE_TEXT];
	fputs("\nby phase:", out);
	for (int i = 0; i < GM_PHASE_COUNT; i++)
		if (blocks->by_phase[i])
			gm_put(out, "  %s %s", gm_phase_name((enum gm_phase)i),
			        gm_text_size(blocks->by_phase[i], size));
	gm_put(out, "\n\n%12s  %7s  allocated at\n", "size", "blocks");
	for (size_t i = 0; i < blocks->group_count && i < LINES_SHOWN; i++)
		gm_put(out, "%12s  %7" PRIu64 "  %s\n", gm_text_size(blocks->groups[i].bytes, size),
		        blocks->groups[i].blocks,
		        gm_text_group(blocks->groups[i].kind, blocks->groups[i].key));
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

void gm_render_top_text(const struct gm_top *top, int pid, double events_per_second, FILE *out)
{
	gm_put(out, "gpumem top  process %d  %s\n", pid, gm_log_source(gm_model_log(top->model)));
	gm_put(out, "%" PRIu64 " events", top->events);
	if (events_per_second >= 0)
		gm_put(out, ", %.0f/s", events_per_second);
	gm_put(out, ", step %u\n\n", gm_model_step_count(top->model));
	put_devices(top->model, out);
	put_blocks(&top->blocks, out);
	put_leaks(&top->growing, out);
}
