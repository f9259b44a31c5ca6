#include "ask/zero.h"
#include "render/json.h"
#include "render/zero_json.h"
#include "render/zero_ranks.h"

/* For each process; null: it does not have the model. */
static json_t *figures(const struct gm_zero_model *model, size_t processes, gm_zero_figure figure,
        enum gm_zero_part part, int number)
{
	json_t *values = json_array();
	for (size_t i = 0; i < processes; i++)
		json_array_append_new(
		        values, model->shardings[i]
		                        ? json_integer(figure(model->shardings[i], part, number))
		                        : json_null());
	return values;
}

static void add_difference(json_t *list, const struct gm_zero_model *model, size_t processes,
        gm_zero_figure figure, enum gm_zero_part part, int number, const char *cause)
{
	if (!gm_zero_differ(model, processes, figure, part, number))
		return;
	json_t *value = json_object();
	json_object_set_new(value, "term", json_string(gm_zero_part_name(part)));
	json_object_set_new(value, "cause", json_string(cause));
	json_object_set_new(value, "bytes", figures(model, processes, figure, part, number));
	json_array_append_new(list, value);
}

static json_t *model_json(const struct gm_zero_model *model, size_t processes)
{
	const struct gm_zero_sharding *first = model->first;
	json_t *value = json_object(), *ranks = json_array(), *terms = json_array();
	json_t *differences = json_array(), *buckets = json_array();
	for (size_t i = 0; i < processes; i++) {
		const struct gm_zero_sharding *sharding = model->shardings[i];
		json_t *rank = sharding ? json_object() : json_null();
		if (sharding) {
			json_object_set_new(rank, "address", gm_json_address(sharding->object));
			json_object_set_new(rank, "rank",
			        sharding->has_rank ? json_integer(sharding->rank) : json_null());
		}
		json_array_append_new(ranks, rank);
	}
	for (int part = 0; part < GM_ZERO_PART_COUNT; part++) {
		enum gm_zero_part term = (enum gm_zero_part)part;
		json_t *bytes = json_object();
		json_object_set_new(bytes, "term", json_string(gm_zero_part_name(term)));
		json_object_set_new(
		        bytes, "bytes", figures(model, processes, gm_zero_figure_bytes, term, 0));
		json_array_append_new(terms, bytes);
		for (int i = 0; i < GM_ZERO_DIFFERENCE_COUNT; i++)
			add_difference(differences, model, processes, gm_zero_figure_difference,
			        term, i, gm_zero_difference_name((enum gm_zero_difference)i));
		add_difference(differences, model, processes, gm_zero_figure_host, term, 0, "host");
	}
	for (int kind = 0; kind < GM_ZERO_BUCKET_KIND_COUNT; kind++) {
		if (!gm_zero_differ(
		            model, processes, gm_zero_figure_buckets, GM_ZERO_BUFFERS, kind))
			continue;
		json_t *counts = json_object();
		json_object_set_new(counts, "kind",
		        json_string(gm_zero_bucket_kind_name((enum gm_zero_bucket_kind)kind)));
		json_object_set_new(counts, "counts",
		        figures(model, processes, gm_zero_figure_buckets, GM_ZERO_BUFFERS, kind));
		json_array_append_new(buckets, counts);
	}
	json_object_set_new(value, "scheme", json_string(gm_zero_scheme_name(first->scheme)));
	json_object_set_new(value, "stage", json_integer(first->stage));
	json_object_set_new(value, "optimizer", gm_json_string_or_null(first->optimizer));
	json_object_set_new(
	        value, "world_size", first->has_world ? json_integer(first->world) : json_null());
	json_object_set_new(value, "ranks_present", json_integer(model->ranks));
	json_object_set_new(value, "complete", json_boolean(model->complete));
	json_object_set_new(value, "elements", json_integer((json_int_t)first->elements));
	json_object_set_new(value, "owned_elements", json_integer((json_int_t)model->owned));
	json_object_set_new(value, "ranks", ranks);
	json_object_set_new(value, "terms", terms);
	json_object_set_new(value, "differences", differences);
	json_object_set_new(value, "buckets", buckets);
	return value;
}

struct gm_error *gm_render_zero_ranks_json(const struct gm_zero_ranks *ranks, FILE *out)
{
	json_t *value = json_object(), *processes = json_array(), *models = json_array();
	for (size_t i = 0; i < ranks->count; i++)
		json_array_append_new(processes, gm_json_zero(&ranks->nows[i]));
	for (size_t i = 0; i < ranks->model_count; i++)
		json_array_append_new(models, model_json(&ranks->models[i], ranks->count));
	json_object_set_new(value, "processes", processes);
	json_object_set_new(value, "models", models);
	return gm_json_write(value, true, out);
}
