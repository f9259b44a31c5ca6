#include "render/step_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/put.h"
#include "render/json.h"
#include "render/text.h"

void gm_put_bytes_cell(struct gm_table *table, uint64_t bytes)
{
	char size[GM_SIZE_TEXT];
	gm_table_cell(table, "%s", gm_text_size(bytes, size));
}

/* "train.py:20" */
void gm_put_step_loop(const struct gm_model *model, const struct gm_step_loop *loop, FILE *out)
{
	struct gm_log_code code;
	if (gm_log_code(gm_model_log(model), loop->code, &code))
		gm_put(out, "%s:%u", gm_text_path(gm_log_string(gm_model_log(model), code.file)),
		        loop->line);
}

/* ---- the device ------------------------------------------------------------------------------ */

const char *gm_text_device_option(
        const struct gm_model *model, size_t index, char buffer[GM_DEVICE_OPTION_TEXT])
{
	if (index == gm_model_main_device(model))
		return "";
	snprintf(buffer, GM_DEVICE_OPTION_TEXT, " --device %d",
	        (int)gm_model_device(model, index)->index);
	return buffer;
}

void gm_put_other_devices(
        const struct gm_model *model, size_t index, bool named, const char *question, FILE *out)
{
	char name[GM_SIZE_TEXT], option[GM_DEVICE_OPTION_TEXT];
	const struct gm_model_device *own = gm_model_device(model, index);
	size_t count = 0, first = 0;
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		const struct gm_model_device *device = gm_model_device(model, i);
		if (i != index && device->events && gm_device_is_accelerator(device->type) &&
		        !count++)
			first = i;
	}
	if (!count)
		return;
	if (named)
		gm_put(out, "About %s. ", gm_text_device(own->type, own->index, name));
	const struct gm_model_device *other = gm_model_device(model, first);
	gm_text_device(other->type, other->index, name);
	if (count == 1)
		gm_put(out, "The recording has %s too", name);
	else
		gm_put(out, "The recording has %zu more devices, such as %s", count, name);
	gm_put(out, ": `gpumem %s%s` asks about %s.\n", question,
	        gm_text_device_option(model, first, option), count == 1 ? "it" : "that one");
}

static bool are_marked(const struct gm_model *model)
{
	return gm_model_steps_marked(model);
}

void gm_put_other_training(const struct gm_model *model, FILE *out)
{
	const struct gm_step_plan *plan = gm_model_step_plan(model);
	if (plan->others && !are_marked(model))
		gm_put(out, "%u more thread%s train%s: %s steps are not counted.\n", plan->others,
		        gm_text_s(plan->others), plan->others == 1 ? "s" : "",
		        plan->others == 1 ? "its" : "their");
	if (plan->other_tasks && !are_marked(model))
		gm_put(out,
		        "%u more task%s take%s turns in the same loop: their steps are not "
		        "counted.\n",
		        plan->other_tasks, gm_text_s(plan->other_tasks),
		        plan->other_tasks == 1 ? "s" : "");
}

/* "cuda:0: 3 steps of the loop at train.py:20" */
void gm_put_steps_head(const struct gm_model *model, size_t index, const char *what, FILE *out)
{
	const struct gm_model_device *device = gm_model_device(model, index);
	const struct gm_step_plan *plan = gm_model_step_plan(model);
	char name[GM_SIZE_TEXT];
	uint32_t count = gm_model_step_count(model), used = 0;
	gm_put(out, "%s: %s%u step%s", gm_text_device(device->type, device->index, name), what,
	        count, gm_text_s(count));
	for (uint32_t i = 0; i < plan->loop_count; i++)
		used += gm_model_loop_steps(model, i) != 0;
	if (are_marked(model)) {
		fputs(", as the program marks them", out);
	} else if (count && used) {
		gm_put(out, " of the loop%s at ", gm_text_s(used));
		for (uint32_t i = 0, put = 0; i < plan->loop_count; i++) {
			if (!gm_model_loop_steps(model, i))
				continue;
			fputs(put++ ? ", " : "", out);
			gm_put_step_loop(model, &plan->loops[i], out);
			if (used > 1)
				gm_put(out, " (%u)", gm_model_loop_steps(model, i));
		}
	} else if (count && plan->rule == GM_STEPS_UPDATES) {
		fputs(", each ended by an update of the weights", out);
	} else if (count && plan->rule == GM_STEPS_ONE_CALL) {
		fputs(": the one call of a module", out);
	}
	fputc('\n', out);
	gm_put_other_training(model, out);
}

/* The definition of a step: "a module's call, backward and the optimizer" */
static void put_work(unsigned work, FILE *out)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {{GM_LANDMARK_MODULE, "a module's call"}, {GM_LANDMARK_BACKWARD, "backward"},
	        {GM_LANDMARK_OPTIMIZER, "the optimizer's step"}};
	unsigned left = work & (GM_LANDMARK_MODULE | GM_LANDMARK_BACKWARD | GM_LANDMARK_OPTIMIZER);
	for (size_t i = 0, put = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!(work & names[i].bit))
			continue;
		left &= ~names[i].bit;
		gm_put(out, "%s%s", !put++ ? "" : left ? ", " : " and ", names[i].name);
	}
}

static const char *rule_name(const struct gm_model *model)
{
	static const char *const names[] = {
	        [GM_STEPS_NOT_FOUND] = "not_found",
	        [GM_STEPS_AROUND_WORK] = "around_work",
	        [GM_STEPS_OUTERMOST] = "outermost_loop",
	        [GM_STEPS_UPDATES] = "updates",
	        [GM_STEPS_ONE_CALL] = "one_call",
	        [GM_STEPS_CHOSEN] = "chosen",
	};
	return are_marked(model) ? "marked" : names[gm_model_step_plan(model)->rule];
}

/* How the steps were recognized, as a sentence. */
void gm_put_steps_reason(const struct gm_model *model, FILE *out)
{
	const struct gm_step_plan *plan = gm_model_step_plan(model);
	if (are_marked(model)) {
		fputs("The program marks where its steps begin.", out);
		return;
	}
	switch (plan->rule) {
	case GM_STEPS_AROUND_WORK:
		fputs(plan->loop_count == 1 ? "The innermost loop around "
		                            : "The innermost loops around ",
		        out);
		put_work(plan->work, out);
		fputs(plan->accumulates ? ", with one update of the weights in each iteration" : "",
		        out);
		fputs("; loops within these are not steps.", out);
		if (gm_model_iteration_count(model) > gm_model_step_count(model))
			gm_put(out,
			        " %u iterations. Iterations that accumulate gradients until the "
			        "optimizer or zero_grad() uses them are one step; iterations "
			        "without any of this are not steps, nor are those of an entry "
			        "into the loop without any backward (an evaluation).",
			        gm_model_iteration_count(model));
		break;
	case GM_STEPS_OUTERMOST:
		fputs("No module, backward or optimizer was seen: the outermost loop of the "
		      "outermost function.",
		        out);
		break;
	case GM_STEPS_UPDATES:
		fputs("No loop is seen around ", out);
		put_work(plan->work, out);
		fputs(": each update of the weights ends a step.", out);
		break;
	case GM_STEPS_ONE_CALL:
		fputs("One place calls a module, and no loop is seen around it.", out);
		break;
	case GM_STEPS_CHOSEN:
		fputs("The loop given by --loop.", out);
		break;
	case GM_STEPS_NOT_FOUND:
		fputs("No loop is seen around the calls of modules.", out);
		break;
	}
}

json_t *gm_json_stretch(const struct gm_stretch *stretch)
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

static json_t *loop_json(const struct gm_model *model, const struct gm_step_loop *loop)
{
	const struct gm_log *log = gm_model_log(model);
	struct gm_log_code code;
	if (!gm_log_code(log, loop->code, &code))
		return json_null();
	return json_pack("{s:o, s:i, s:o}", "file", gm_json_string(gm_log_string(log, code.file)),
	        "line", (int)loop->line, "function", gm_json_string(gm_log_string(log, code.name)));
}

/* All loops with steps, the loops around them, and how they were recognized. */
static void put_how(json_t *value, const struct gm_model *model)
{
	enum { AROUND_MAX = 16 };
	const struct gm_step_plan *plan = gm_model_step_plan(model);
	json_t *loops = json_array(), *around = json_array();
	struct gm_step_loop outer[AROUND_MAX];
	for (uint32_t i = 0; i < plan->loop_count && !are_marked(model); i++) {
		json_t *one = loop_json(model, &plan->loops[i]);
		json_object_set_new(one, "steps", json_integer(gm_model_loop_steps(model, i)));
		json_array_append_new(loops, one);
	}
	size_t count = gm_model_loops_around(model, outer, AROUND_MAX);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(around, loop_json(model, &outer[i]));
	json_object_set_new(value, "loops", loops);
	json_object_set_new(value, "loops_around", around);
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (out) {
		gm_put_steps_reason(model, out);
		fclose(out);
	}
	json_object_set_new(value, "told_by", json_string(rule_name(model)));
	json_object_set_new(value, "reason", json_string(text ? text : ""));
	json_object_set_new(value, "iterations", json_integer(gm_model_iteration_count(model)));
	json_object_set_new(value, "other_training_threads", json_integer(plan->others));
	json_object_set_new(value, "other_training_tasks", json_integer(plan->other_tasks));
	free(text);
}

json_t *gm_json_steps_head(const struct gm_model *model, size_t device)
{
	json_t *value = json_object();
	struct gm_step_loop loop;
	json_object_set_new(value, "device",
	        device == SIZE_MAX ? json_null()
	                           : json_integer(gm_model_device(model, device)->index));
	bool found = gm_model_step_count(model) && gm_model_step_loop(model, &loop);
	json_object_set_new(value, "loop", found ? loop_json(model, &loop) : json_null());
	put_how(value, model);
	return value;
}
