#include "render/steps.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "render/json.h"

static void put_bytes(struct gm_table *table, uint64_t bytes)
{
	char size[GM_SIZE_TEXT];
	gm_table_cell(table, "%s", gm_text_size(bytes, size));
}

/* "cuda:0: 3 steps of the loop at train.py:20" */
static void put_head(const struct gm_steps_answer *answer, const char *what, FILE *out)
{
	const struct gm_model *model = answer->model;
	const struct gm_model_device *device = gm_model_device(model, answer->device);
	char name[GM_SIZE_TEXT];
	struct gm_step_loop loop;
	struct gm_log_code code;
	uint32_t count = gm_model_step_count(model);
	fprintf(out, "%s: %s%u step%s", gm_text_device(device->type, device->index, name), what,
	        count, count == 1 ? "" : "s");
	if (count && gm_model_step_loop(model, &loop) &&
	        gm_log_code(gm_model_log(model), loop.code, &code))
		fprintf(out, " of the loop at %s:%u",
		        gm_text_path(gm_log_string(gm_model_log(model), code.file)), loop.line);
	else if (gm_model_steps_marked(model))
		fputs(", as the program marks them", out);
	fputc('\n', out);
}

static const char *stretch_name(const struct gm_steps_answer *answer, size_t i)
{
	if (i == 0)
		return "before";
	return i + 1 == answer->step_count ? "after" : "between";
}

static void put_step(struct gm_table *table, const struct gm_steps_answer *answer, size_t index)
{
	const struct gm_stretch *step = &answer->steps[index];
	if (step->step)
		gm_table_cell(table, "%u", step->step);
	else
		gm_table_cell(table, "%s", stretch_name(answer, index));
	gm_table_cell(table, "%u-%u", step->first, step->last);
	put_bytes(table, step->start);
	put_bytes(table, step->peak);
	gm_table_cell(table, "#%u", step->peak_event);
	gm_table_cell(table, "%s", gm_phase_name(gm_model_phase(answer->model, step->peak_event)));
	put_bytes(table, step->end);
	put_bytes(table, step->bytes);
	gm_table_cell(table, "%" PRIu64, step->blocks);
	put_bytes(table, step->kept);
}

static bool alike(const struct gm_stretch *a, const struct gm_stretch *b)
{
	return a->step > 1 && b->step > 1 && a->start == b->start && a->peak == b->peak &&
	       a->end == b->end && a->bytes == b->bytes && a->blocks == b->blocks &&
	       a->events == b->events;
}

struct gm_error *gm_render_steps_text(
        const struct gm_steps_answer *answer, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {"step", "events", "at start", "peak", "at", "in",
	        "at end", "allocated", "blocks", "kept"};
	if (answer->device == SIZE_MAX) {
		fputs("No memory was allocated in the record.\n", out);
		return NULL;
	}
	put_head(answer, "", out);
	struct gm_table *table = gm_table_create(heads, "rrrrrlrrrr");
	for (size_t i = 0; i < answer->step_count; i++) {
		size_t same = i;
		while (same + 1 < answer->step_count &&
		        alike(&answer->steps[i], &answer->steps[same + 1]))
			same++;
		put_step(table, answer, i);
		if (same < i + 3)
			continue;
		/* a long run of equal steps is told by its first and its last */
		for (int cell = 0; cell < 10; cell++)
			gm_table_cell(table, "%s", cell ? "" : "...");
		i = same - 1;
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	char size[GM_SIZE_TEXT];
	if (!gm_model_step_count(answer->model))
		fputs("No training loop was found: no stack shows one go round.\n", out);
	else if (answer->growth)
		fprintf(out,
		        "Each step from 3 on ends with %s more than the one before: `gpumem leaks` "
		        "says from where.\n",
		        gm_text_size(answer->growth, size));
	else if (answer->even)
		fputs("All steps from 2 on end with as much as the one before: nothing grows.\n",
		        out);
	return NULL;
}

static json_t *stretch_json(const struct gm_stretch *stretch)
{
	json_t *value = json_object();
	json_object_set_new(value, "first_event", json_integer(stretch->first));
	json_object_set_new(value, "last_event", json_integer(stretch->last));
	json_object_set_new(value, "events", json_integer((json_int_t)stretch->events));
	json_object_set_new(value, "allocated_start", json_integer((json_int_t)stretch->start));
	json_object_set_new(value, "allocated_end", json_integer((json_int_t)stretch->end));
	json_object_set_new(value, "peak", json_integer((json_int_t)stretch->peak));
	json_object_set_new(value, "peak_event", json_integer(stretch->peak_event));
	json_object_set_new(value, "blocks", json_integer((json_int_t)stretch->blocks));
	json_object_set_new(value, "bytes", json_integer((json_int_t)stretch->bytes));
	json_object_set_new(value, "kept_blocks", json_integer((json_int_t)stretch->kept_blocks));
	json_object_set_new(value, "kept", json_integer((json_int_t)stretch->kept));
	return value;
}

static json_t *head_json(const struct gm_steps_answer *answer)
{
	json_t *value = json_object();
	const struct gm_model *model = answer->model;
	struct gm_step_loop loop;
	struct gm_log_code code;
	json_object_set_new(value, "device",
	        answer->device == SIZE_MAX
	                ? json_null()
	                : json_integer(gm_model_device(model, answer->device)->index));
	if (gm_model_step_count(model) && gm_model_step_loop(model, &loop) &&
	        gm_log_code(gm_model_log(model), loop.code, &code))
		json_object_set_new(value, "loop",
		        json_pack("{s:o, s:i, s:o}", "file",
		                gm_json_string(gm_log_string(gm_model_log(model), code.file)),
		                "line", (int)loop.line, "function",
		                gm_json_string(gm_log_string(gm_model_log(model), code.name))));
	else
		json_object_set_new(value, "loop", json_null());
	return value;
}

struct gm_error *gm_render_steps_json(const struct gm_steps_answer *answer, FILE *out)
{
	json_t *value = head_json(answer), *steps = json_array(), *outside = json_array();
	for (size_t i = 0; i < answer->step_count; i++) {
		json_t *one = stretch_json(&answer->steps[i]);
		json_object_set_new(one, "peak_phase",
		        json_string(gm_phase_name(
		                gm_model_phase(answer->model, answer->steps[i].peak_event))));
		if (answer->steps[i].step)
			json_object_set_new(one, "step", json_integer(answer->steps[i].step));
		json_array_append_new(answer->steps[i].step ? steps : outside, one);
	}
	json_object_set_new(value, "steps", steps);
	json_object_set_new(value, "outside", outside);
	json_object_set_new(value, "growth_per_step", json_integer((json_int_t)answer->growth));
	return gm_json_write(value, true, out);
}

struct gm_error *gm_render_phases_text(
        const struct gm_steps_answer *answer, const struct gm_style *style, FILE *out)
{
	static const char *const heads[] = {
	        "phase", "events", "allocated", "blocks", "kept", "peak in it", "at", "step"};
	if (answer->device == SIZE_MAX) {
		fputs("No memory was allocated in the record.\n", out);
		return NULL;
	}
	put_head(answer, "phases of ", out);
	struct gm_table *table = gm_table_create(heads, "lrrrrrrr");
	for (int i = 0; i < GM_PHASE_COUNT; i++) {
		const struct gm_stretch *phase = &answer->phases[i];
		if (!phase->events)
			continue;
		uint32_t step = gm_model_step(answer->model, phase->peak_event);
		gm_table_cell(table, "%s", gm_phase_name((enum gm_phase)i));
		gm_table_cell(table, "%" PRIu64, phase->events);
		put_bytes(table, phase->bytes);
		gm_table_cell(table, "%" PRIu64, phase->blocks);
		put_bytes(table, phase->kept);
		put_bytes(table, phase->peak);
		gm_table_cell(table, "#%u", phase->peak_event);
		if (step)
			gm_table_cell(table, "%u", step);
		else
			gm_table_cell(table, "%s", "");
	}
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	fputs("allocated: in sum. kept: of that, what outlived its phase.\n", out);
	return NULL;
}

struct gm_error *gm_render_phases_json(const struct gm_steps_answer *answer, FILE *out)
{
	json_t *value = head_json(answer), *phases = json_array();
	for (int i = 0; i < GM_PHASE_COUNT; i++) {
		const struct gm_stretch *phase = &answer->phases[i];
		if (!phase->events)
			continue;
		json_t *one = stretch_json(phase);
		uint32_t step = gm_model_step(answer->model, phase->peak_event);
		json_object_set_new(one, "phase", json_string(gm_phase_name((enum gm_phase)i)));
		json_object_set_new(one, "peak_step", step ? json_integer(step) : json_null());
		json_array_append_new(phases, one);
	}
	json_object_set_new(value, "phases", phases);
	return gm_json_write(value, true, out);
}
