#include "view/other.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "ask/diff.h"
#include "base/cleanup.h"
#include "render/diff.h"
#include "render/json.h"
#include "render/text.h"
#include "view/device.h"
#include "view/head.h"

/* Maximum number of buckets: a recording with fewer events has one for each event. */
enum { BUCKETS_MOST = 1 << 16 };

static uint32_t bucket_of(uint64_t events)
{
	uint32_t each = 1;
	while (events / each >= BUCKETS_MOST)
		each *= 2;
	return each;
}

/* The answer of `diff` about both, as JSON. */
static struct gm_error *compare(struct gm_context *context, const char *path, json_t **ret_value)
{
	const char *const paths[] = {context->log_path, path};
	const struct gm_compare_options options = {.by = GM_BY_NONE};
	struct gm_compare found;
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	gm_try(gm_ask_compare(context, paths, 2, &options, &found));
	FILE *out = open_memstream(&text, &size);
	struct gm_error *error = out ? gm_render_compare_json(&found, out) : &gm_error_no_memory;
	if (out && fclose(out) != 0 && !error)
		error = &gm_error_no_memory;
	gm_compare_deinit(&found);
	if (error)
		return error;
	json_t *value = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
	if (!value)
		return &gm_error_no_memory;
	*ret_value = value;
	return NULL;
}

static json_t *other_json(const struct gm_model *model, size_t number, uint32_t each)
{
	const struct gm_model_device *device = gm_model_device(model, number);
	const struct gm_log *log = gm_model_log(model);
	char name[GM_SIZE_TEXT];
	return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:o}", "file",
	        gm_json_string(gm_log_path(log)), "name",
	        gm_text_device(device->type, device->index, name), "events",
	        (json_int_t)gm_log_event_count(log), "bucket", (json_int_t)each, "peak_allocated",
	        (json_int_t)device->peak.allocated, "peak_reserved",
	        (json_int_t)device->peak.reserved, "peak_event",
	        gm_json_event_or_null(device->peak_event));
}

static struct gm_error *write_memory(
        const struct gm_model *model, size_t device, uint32_t each, struct gm_view_columns *columns)
{
	_cleanup_(gm_buckets_deinit) struct gm_buckets buckets = {0};
	const struct gm_categories *categories;
	gm_try(gm_model_categories((struct gm_model *)model, &categories));
	gm_try(gm_buckets_find(model, device, categories, each, &buckets));
	gm_view_levels(&buckets, "other", columns);
	gm_view_runs(model, "other.run", columns);
	return NULL;
}

static struct gm_error *write_head(json_t *head, struct gm_view_columns *columns)
{
	_cleanup_free_ char *text = NULL;
	gm_try(gm_json_text(head, JSON_COMPACT, &text));
	gm_view_column_begin(columns, "other", GM_VIEW_JSON);
	gm_view_put_bytes(columns, text, strlen(text));
	gm_view_column_end(columns);
	return NULL;
}

/* `value`: the answer of diff; the column takes it. */
static struct gm_error *write_other(
        struct gm_context *context, json_t *value, struct gm_view_columns *columns)
{
	struct gm_model *model = NULL;
	struct gm_error *error = gm_context_model(context, &model);
	size_t device = error ? SIZE_MAX : gm_model_main_device(model);
	if (error) {
		json_decref(value);
		return error;
	}
	uint32_t each = bucket_of(gm_log_event_count(gm_model_log(model)));
	json_t *head = device == SIZE_MAX
	                       ? json_pack("{s:o}", "file",
	                                 gm_json_string(gm_log_path(gm_model_log(model))))
	                       : other_json(model, device, each);
	json_object_set_new(head, "diff", value);
	gm_try(write_head(head, columns));
	return device == SIZE_MAX ? NULL : write_memory(model, device, each, columns);
}

struct gm_error *gm_view_other(
        struct gm_context *context, const char *path, struct gm_view_columns *columns)
{
	struct gm_context other;
	json_t *value;
	gm_json_begin();
	gm_try(compare(context, path, &value));
	gm_context_init(&other);
	other.shell = true;
	other.progress = context->progress;
	struct gm_error *error = gm_context_set_log(&other, path);
	if (error)
		json_decref(value);
	else
		error = write_other(&other, value, columns);
	gm_context_deinit(&other);
	return error;
}
