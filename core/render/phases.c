#include "render/phases.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/put.h"
#include "render/json.h"
#include "render/step_head.h"
#include "render/text.h"

struct gm_error *gm_render_phases_text(
        const struct gm_phases *phases, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "phase", "events", "allocated", "blocks", "kept", "peak in it", "at", "step"};
	if (phases->device == SIZE_MAX) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	gm_put_steps_head(phases->model, phases->device, "phases of ", out);
	struct gm_table *table = gm_table_create(heads, "lrrrrrrr");
	for (int i = 0; i < GM_PHASE_COUNT; i++) {
		const struct gm_stretch *phase = &phases->items[i];
		if (!phase->events)
			continue;
		uint32_t step = gm_model_step(phases->model, phase->peak_event);
		gm_table_cell(table, "%s", gm_phase_name((enum gm_phase)i));
		gm_table_cell(table, "%" PRIu64, phase->events);
		gm_put_bytes_cell(table, phase->bytes);
		gm_table_cell(table, "%" PRIu64, phase->blocks);
		gm_put_bytes_cell(table, phase->kept);
		gm_put_bytes_cell(table, phase->peak);
		gm_table_cell(table, "#%u", phase->peak_event);
		if (step)
			gm_table_cell(table, "%u", step);
		else
			gm_table_cell(table, "%s", "");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	fputs("allocated: in total. kept: the part that outlived its phase.\n", out);
	return NULL;
}

struct gm_error *gm_render_phases_json(const struct gm_phases *phases, FILE *out)
{
	json_t *value = gm_json_steps_head(phases->model, phases->device), *list = json_array();
	for (int i = 0; i < GM_PHASE_COUNT; i++) {
		const struct gm_stretch *phase = &phases->items[i];
		if (!phase->events)
			continue;
		json_t *one = gm_json_stretch(phase);
		uint32_t step = gm_model_step(phases->model, phase->peak_event);
		json_object_set_new(one, "phase", json_string(gm_phase_name((enum gm_phase)i)));
		json_object_set_new(one, "peak_step", step ? json_integer(step) : json_null());
		json_array_append_new(list, one);
	}
	json_object_set_new(value, "phases", list);
	return gm_json_write(value, true, out);
}
