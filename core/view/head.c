#include "view/head.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ask/info.h"
#include "ask/oom.h"
#include "ask/peak.h"
#include "ask/timeline.h"
#include "base/cleanup.h"
#include "model/condition.h"
#include "render/answers.h"
#include "render/category.h"
#include "render/json.h"
#include "render/oom.h"
#include "render/timeline.h"

/* The page contains the printed answers, so that its words are those of the commands. */
struct printed {
	FILE *out;
	char *text;
	size_t size;
};

static struct gm_error *print_begin(struct printed *printed)
{
	*printed = (struct printed){0};
	printed->out = open_memstream(&printed->text, &printed->size);
	return printed->out ? NULL : &gm_error_no_memory;
}

/* `error`: of what was printed. */
static struct gm_error *print_end(struct printed *printed, struct gm_error *error)
{
	if (fclose(printed->out) != 0 && !error)
		error = &gm_error_no_memory;
	if (error)
		free(gm_take(printed->text));
	return error;
}

static struct gm_error *set_text(json_t *head, const char *name, struct printed *printed)
{
	int failed = json_object_set_new(head, name, gm_json_take(printed->text));
	return failed ? &gm_error_no_memory : NULL;
}

static struct gm_error *set_json(json_t *head, const char *name, struct printed *printed)
{
	json_t *value = json_loadb(printed->text, printed->size, JSON_ALLOW_NUL, NULL);
	free(printed->text);
	return json_object_set_new(head, name, value) ? &gm_error_no_memory : NULL;
}

static struct gm_error *set_info(struct gm_context *context, json_t *head)
{
	const struct gm_style style = {0};
	struct gm_info info;
	struct printed json, text;
	gm_try(gm_ask_info(context, &info));
	struct gm_error *error = print_begin(&json);
	if (!error)
		error = print_end(&json, gm_render_info_json(&info, json.out));
	if (!error)
		error = set_json(head, "info", &json);
	if (!error)
		error = print_begin(&text);
	if (!error)
		error = print_end(&text, gm_render_info_text(&info, &style, text.out));
	if (!error)
		error = set_text(head, "info_text", &text);
	gm_info_deinit(&info);
	return error;
}

static struct gm_error *set_peak(struct gm_context *context, json_t *head)
{
	const struct gm_blocks_options options = {.by = GM_BY_LINE, .descend = true};
	const struct gm_style style = {0};
	struct gm_peak peak;
	struct printed text;
	gm_try(gm_ask_peak(context, &options, false, &peak));
	struct gm_error *error = print_begin(&text);
	if (!error)
		error = print_end(&text, gm_render_peak_text(&peak.blocks, &peak.modules,
		                                 &peak.secondary, &style, text.out));
	if (!error)
		error = set_text(head, "peak_text", &text);
	gm_peak_deinit(&peak);
	return error;
}

static bool has_oom(const struct gm_model *model)
{
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		if (gm_model_device(model, i)->ooms)
			return true;
	return false;
}

/* Of the last out-of-memory error. */
static struct gm_error *set_oom(struct gm_context *context, json_t *head)
{
	const struct gm_style style = {0};
	struct gm_oom oom;
	struct printed text;
	gm_try(gm_ask_oom_event(context, -1, false, 0, &oom));
	struct gm_error *error = print_begin(&text);
	if (!error)
		error = print_end(&text, gm_render_oom_text(&oom, NULL, &style, text.out));
	if (!error)
		error = set_text(head, "oom_text", &text);
	gm_oom_deinit(&oom);
	return error;
}

static struct gm_error *set_shapes(struct gm_context *context, json_t *head)
{
	struct gm_shapes shapes;
	struct printed json, text;
	gm_try(gm_ask_shapes(context, &shapes));
	gm_try(print_begin(&json));
	gm_try(print_end(&json, gm_render_timeline_json(&shapes, NULL, NULL, 0, json.out)));
	gm_try(set_json(head, "timeline", &json));
	gm_try(print_begin(&text));
	gm_render_shapes_text(&shapes, text.out);
	gm_try(print_end(&text, NULL));
	return set_text(head, "shapes_text", &text);
}

static json_t *device_json(const struct gm_model *model, size_t number)
{
	const struct gm_model_device *device = gm_model_device(model, number);
	char name[GM_SIZE_TEXT];
	return json_pack("{s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:o}", "number", (int)number, "name",
	        gm_text_device(device->type, device->index, name), "device", device->index,
	        "events", (json_int_t)device->events, "peak_allocated",
	        (json_int_t)device->peak.allocated, "peak_reserved",
	        (json_int_t)device->peak.reserved, "ooms", (json_int_t)device->ooms, "peak_event",
	        gm_json_event_or_null(device->peak_event));
}

/* The operands of conditions over blocks, and the words that are compared with. */
static json_t *facts_json(void)
{
	json_t *facts = json_array();
	for (int fact = 0; fact < GM_FACT_COUNT; fact++) {
		if (!gm_fact_is_known((enum gm_fact)fact, GM_OF_BLOCKS))
			continue;
		json_t *words = json_array();
		const char *word;
		for (unsigned i = 0; (word = gm_fact_word((enum gm_fact)fact, i)); i++)
			json_array_append_new(words, json_string(word));
		json_t *others = json_object();
		const char *other;
		for (unsigned i = 0; (other = gm_fact_other_word((enum gm_fact)fact, i, &word));
		        i++)
			json_object_set_new(others, other, json_string(word));
		json_array_append_new(facts,
		        json_pack("{s:s, s:o, s:o}", "name", gm_fact_name((enum gm_fact)fact),
		                "words", words, "others", others));
	}
	return facts;
}

static json_t *make_head(const struct gm_model *model)
{
	json_t *head = json_object(), *devices = json_array(), *categories = json_array(),
	       *reasons = json_array(), *phases = json_array();
	const struct gm_log *log = gm_model_log(model);
	size_t main_device = gm_model_main_device(model);
	for (size_t i = 0; i < gm_model_device_count(model); i++)
		if (gm_model_device(model, i)->events)
			json_array_append_new(devices, device_json(model, i));
	for (int i = 0; i < GM_CATEGORY_COUNT; i++)
		json_array_append_new(
		        categories, json_string(gm_category_name((enum gm_category)i)));
	for (int i = 0; i < GM_REASON_COUNT; i++)
		json_array_append_new(
		        reasons, gm_json_take(gm_category_reason_text((enum gm_category_reason)i)));
	for (int i = 0; i < GM_PHASE_COUNT; i++)
		json_array_append_new(phases, json_string(gm_phase_name((enum gm_phase)i)));
	json_object_set_new(head, "format", json_integer(1));
	json_object_set_new(head, "version", json_string(GPUMEM_VERSION));
	json_object_set_new(head, "file", gm_json_string(gm_log_path(log)));
	json_object_set_new(head, "events", json_integer((json_int_t)gm_log_event_count(log)));
	json_object_set_new(head, "devices", devices);
	json_object_set_new(head, "main",
	        main_device == SIZE_MAX ? json_null() : json_integer((json_int_t)main_device));
	json_object_set_new(head, "categories", categories);
	json_object_set_new(head, "reasons", reasons);
	json_object_set_new(head, "phases", phases);
	json_object_set_new(head, "facts", facts_json());
	return head;
}

void gm_view_runs(const struct gm_model *model, const char *prefix, struct gm_view_columns *columns)
{
	static const char *const names[] = {"first", "step", "phase"};
	for (int which = 0; which < 3; which++) {
		char name[64];
		snprintf(name, sizeof(name), "%s.%s", prefix, names[which]);
		gm_view_column_begin(columns, name, GM_VIEW_DIFFERENCES);
		for (size_t i = 0; i < gm_model_run_count(model); i++) {
			struct gm_model_run run = gm_model_run(model, i);
			gm_view_put(columns, which == 0   ? run.first
			                     : which == 1 ? run.step
			                                  : run.phase);
		}
		gm_view_column_end(columns);
	}
}

struct gm_error *gm_view_head(
        struct gm_context *context, const struct gm_model *model, struct gm_view_columns *columns)
{
	_cleanup_free_ char *text = NULL;
	gm_json_begin();
	json_t *head = make_head(model);
	struct gm_error *error = set_info(context, head);
	if (!error)
		error = set_peak(context, head);
	if (!error && has_oom(model))
		error = set_oom(context, head);
	if (!error)
		error = set_shapes(context, head);
	if (error) {
		json_decref(head);
		return error;
	}
	gm_try(gm_json_text(head, JSON_COMPACT, &text));
	gm_view_column_begin(columns, "head", GM_VIEW_JSON);
	gm_view_put_bytes(columns, text, strlen(text));
	gm_view_column_end(columns);
	gm_view_runs(model, "run", columns);
	return NULL;
}
