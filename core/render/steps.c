#include "render/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "ask/recording/amp_outcomes.h"
#include "base/put.h"
#include "render/json.h"
#include "render/step_head.h"
#include "render/text.h"

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
	gm_put_bytes_cell(table, step->start);
	gm_put_bytes_cell(table, step->peak);
	gm_table_cell(table, "#%u", step->peak_event);
	gm_table_cell(table, "%s", gm_phase_name(gm_model_phase(answer->model, step->peak_event)));
	gm_put_bytes_cell(table, step->end);
	gm_put_bytes_cell(table, step->bytes);
	gm_table_cell(table, "%" PRIu64, step->blocks);
	gm_put_bytes_cell(table, step->kept);
	if (step->followed)
		gm_put_bytes_cell(table, step->replaced);
	else
		gm_table_cell(table, "%s", "");
}

static const struct gm_amp_step *outcome_of(const struct gm_steps_answer *answer, uint32_t step)
{
	return step && step <= answer->outcome_count ? &answer->outcomes[step - 1] : NULL;
}

/* "Steps 1, 4 were skipped: found inf." */
static void put_skipped(const struct gm_steps_answer *answer, FILE *out)
{
	enum { SHOWN = 12 };
	size_t skipped = 0, shown = 0;
	bool partly = false;
	for (size_t i = 0; i < answer->outcome_count; i++) {
		skipped += answer->outcomes[i].skipped != 0;
		partly |= answer->outcomes[i].outcome == GM_AMP_STEP_PARTLY;
	}
	if (!skipped)
		return;
	gm_put(out, "Step%s ", gm_text_s(skipped));
	for (size_t i = 0; i < answer->outcome_count && shown < SHOWN; i++)
		if (answer->outcomes[i].skipped)
			gm_put(out, "%s%u", shown++ ? ", " : "", answer->outcomes[i].step);
	if (skipped > shown)
		gm_put(out, " and %zu more", skipped - shown);
	gm_put(out, " w%s skipped: found inf. %s `gpumem amp` shows more.\n",
	        skipped == 1 ? "as" : "ere",
	        partly ? "Some of the optimizers changed nothing:"
	               : "The optimizer changed nothing:");
}

static bool alike(const struct gm_stretch *a, const struct gm_stretch *b)
{
	return a->step > 1 && b->step > 1 && a->start == b->start && a->peak == b->peak &&
	       a->end == b->end && a->bytes == b->bytes && a->replaced == b->replaced &&
	       a->blocks == b->blocks && a->events == b->events;
}

enum { COLUMNS = 11 };

static void put_dots(struct gm_table *table)
{
	for (int cell = 0; cell < COLUMNS; cell++)
		gm_table_cell(table, "%s", cell ? "" : "...");
}

/* The row that is shown after row `i`: of a long run of equal steps the first and the last are. */
static size_t next_row(const struct gm_steps_answer *answer, size_t i)
{
	enum { RUN = 4 };
	size_t last = i;
	while (last + 1 < answer->step_count && alike(&answer->steps[i], &answer->steps[last + 1]))
		last++;
	return last + 1 >= i + RUN ? last : i + 1;
}

/* Of many rows the first and the last are shown, and between them those whose peak is a tenth
 * higher than all that are shown above. Returns how many were left out for that. */
static size_t put_rows(struct gm_table *table, const struct gm_steps_answer *answer)
{
	enum { ALL = 60, FIRST = 20, LAST = 10 };
	size_t rows = 0, row = 0, left_out = 0;
	for (size_t i = 0; i < answer->step_count; i = next_row(answer, i))
		rows++;
	uint64_t highest = 0;
	bool dots = false;
	for (size_t i = 0, next; i < answer->step_count; i = next, row++) {
		const struct gm_stretch *step = &answer->steps[i];
		bool shown = rows <= ALL || row < FIRST || row + LAST >= rows ||
		             step->peak > highest + highest / 10;
		next = next_row(answer, i);
		if (shown) {
			put_step(table, answer, i);
			highest = step->peak > highest ? step->peak : highest;
			dots = false;
		}
		left_out += !shown;
		if (!dots && (!shown || next != i + 1)) {
			put_dots(table);
			dots = true;
		}
	}
	return left_out;
}

struct gm_error *gm_render_steps_text(
        const struct gm_steps_answer *answer, bool explain, const struct gm_style *style, FILE *out)
{
	static const char *const heads[COLUMNS] = {"step", "events", "at start", "peak", "at", "in",
	        "at end", "allocated", "blocks", "kept", "replaced"};
	if (answer->device == SIZE_MAX) {
		fputs("The recording contains no allocations.\n", out);
		return NULL;
	}
	char buffer[GM_DEVICE_OPTION_TEXT];
	const char *option = gm_text_device_option(answer->model, answer->device, buffer);
	gm_put_steps_head(answer->model, answer->device, "", out);
	gm_put_other_devices(answer->model, answer->device, false, "steps", out);
	uint32_t steps = gm_model_step_count(answer->model);
	if (answer->training && answer->training < steps)
		gm_put(out, "%u of the steps train%s: %s a backward pass or an optimizer's step.\n",
		        answer->training, answer->training == 1 ? "s" : "",
		        answer->training == 1 ? "it has" : "they have");
	if (explain) {
		gm_put_steps_reason(answer->model, out);
		fputc('\n', out);
	}
	struct gm_table *table = gm_table_create(heads, "rRrrRLrrRrr");
	size_t left_out = put_rows(table, answer);
	bool followed = false;
	for (size_t i = 0; i < answer->step_count; i++)
		followed |= answer->steps[i].followed;
	if (!gm_table_finish(table, style, out))
		return &gm_error_no_memory;
	if (left_out)
		gm_put(out,
		        "%zu more row%s, none with a peak more than 10 %% above the rows shown: "
		        "--json has all.\n",
		        left_out, gm_text_s(left_out));
	if (followed)
		fputs("kept: of the allocated bytes, those that the step did not free; replaced: "
		      "of "
		      "these, those that the next step frees\n",
		        out);
	put_skipped(answer, out);
	char size[GM_SIZE_TEXT];
	if (!gm_model_step_count(answer->model))
		fputs("No training loop was found: no stack shows a loop that iterates.\n", out);
	else if (answer->growth)
		gm_put(out,
		        "Each step from 3 on ends with %s more than the one before: %s`gpumem "
		        "leaks%s` %s.\n",
		        gm_text_size(answer->growth, size),
		        answer->few && !answer->leaks ? "for " : "", option,
		        answer->leaks ? "shows the lines"
		        : answer->few ? "these are too few steps"
		                      : "finds no line whose blocks accumulate");
	else if (answer->even)
		fputs(answer->kept_after ? "All steps from 2 on end with the same allocated bytes."
		                           "\n"
		                         : "All steps from 2 on end with the same allocated bytes: "
		                           "nothing grows.\n",
		        out);
	if (answer->kept_after)
		gm_put(out,
		        "After the steps, %s in %" PRIu64
		        " block%s were allocated and not released "
		        "by the end: `gpumem leaks%s` examines the loops there.\n",
		        gm_text_size(answer->kept_after, size), answer->kept_after_blocks,
		        gm_text_s(answer->kept_after_blocks), option);
	return NULL;
}

struct gm_error *gm_render_steps_json(const struct gm_steps_answer *answer, FILE *out)
{
	json_t *value = gm_json_steps_head(answer->model, answer->device), *steps = json_array(),
	       *outside = json_array();
	for (size_t i = 0; i < answer->step_count; i++) {
		json_t *one = gm_json_stretch(&answer->steps[i]);
		json_object_set_new(one, "peak_phase",
		        json_string(gm_phase_name(
		                gm_model_phase(answer->model, answer->steps[i].peak_event))));
		const struct gm_amp_step *outcome = outcome_of(answer, answer->steps[i].step);
		json_object_set_new(one, "optimizer_step",
		        outcome ? json_string(gm_amp_outcome_name(outcome->outcome)) : json_null());
		json_object_set_new(one, "replaced",
		        answer->steps[i].followed
		                ? json_integer((json_int_t)answer->steps[i].replaced)
		                : json_null());
		if (answer->steps[i].step)
			json_object_set_new(one, "step", json_integer(answer->steps[i].step));
		json_array_append_new(answer->steps[i].step ? steps : outside, one);
	}
	json_object_set_new(value, "steps", steps);
	json_object_set_new(value, "outside", outside);
	json_object_set_new(value, "training_steps",
	        answer->training ? json_integer(answer->training) : json_null());
	json_object_set_new(value, "growth_per_step", json_integer((json_int_t)answer->growth));
	json_object_set_new(value, "kept_after", json_integer((json_int_t)answer->kept_after));
	return gm_json_write(value, true, out);
}
