#include "base/cleanup.h"
#include "render/estimate.h"
#include "render/estimate_words.h"
#include "render/json.h"

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *term_json(const struct gm_estimate_term *term, enum gm_estimate_term_kind kind)
{
	const struct gm_estimate_formula_text *formula = gm_estimate_formula_text(term->formula);
	json_t *operands = json_object();
	for (size_t i = 0; operands && formula->operands[i]; i++) {
		const char name[] = {formula->operands[i], 0};
		json_object_set_new(operands, name, number(term->operands[i]));
	}
	return json_pack("{s:s,s:o,s:o,s:s,s:o,s:s}", "kind", gm_estimate_term_name(kind), "bytes",
	        number(term->bytes), "host_bytes", number(term->host), "formula", formula->text,
	        "operands", operands, "source", gm_estimate_source_name(term->source));
}

static json_t *counts_json(const struct gm_estimate_model *model)
{
	const struct gm_estimate_counts *counts = &model->counts;
	if (!model->has_shape)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "embedding",
	        number(counts->embedding), "positions", number(counts->positions), "attention",
	        number(counts->attention), "mlp", number(counts->mlp), "experts",
	        number(counts->experts), "router", number(counts->router), "norms",
	        number(counts->norms), "head", number(counts->head), "active",
	        number(counts->active));
}

static json_t *model_json(const struct gm_estimate_model *model)
{
	return json_pack("{s:s,s:o,s:o,s:o,s:o}", "input", gm_estimate_input_name(model->input),
	        "file", gm_json_string_or_null(model->path), "architecture",
	        gm_json_string_or_null(
	                model->has_shape ? gm_estimate_architecture_name(model->shape.architecture)
	                                 : NULL),
	        "parameters", number(model->counts.total), "by_part", counts_json(model));
}

static json_t *offload_json(unsigned offload)
{
	static const char *const names[] = {"optimizer", "parameters", "activations"};
	json_t *list = json_array();
	for (unsigned i = 0; list && i < 3; i++)
		if (offload >> i & 1)
			json_array_append_new(list, json_string(names[i]));
	return list;
}

static json_t *settings_json(const struct gm_estimate *estimate)
{
	const struct gm_estimate_settings *settings = &estimate->settings;
	json_t *value = json_pack("{s:o,s:o,s:s,s:o,s:b,s:s,s:s,s:o,s:s,s:b,s:s}", "batch",
	        number(settings->batch), "sequence", number(settings->sequence), "dtype",
	        gm_estimate_dtype_name(settings->dtype), "autocast",
	        settings->autocast ? json_string(gm_estimate_dtype_name(settings->autocast))
	                           : json_null(),
	        "master_weights", settings->master_weights, "optimizer",
	        gm_estimate_optimizer_name(settings->optimizer), "checkpointing",
	        gm_estimate_checkpointing_name(settings->checkpointing), "accumulation",
	        number(settings->accumulation), "attention",
	        settings->materialized ? "materialized" : "efficient", "inference",
	        settings->inference, "activations", gm_estimate_way_name(settings->way));
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
	        {"zero", settings->zero},
	        {"world", settings->world},
	        {"tp", settings->tp},
	        {"pp", settings->pp},
	        {"cp", settings->cp},
	        {"ep", settings->ep},
	        {"data_parallel", estimate->data_parallel},
	};
	for (size_t i = 0; value && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(value, numbers[i].name, number(numbers[i].value));
	if (value) {
		json_object_set_new(
		        value, "sequence_parallel", json_boolean(settings->sequence_parallel));
		json_object_set_new(value, "offload", offload_json(settings->offload));
	}
	return value;
}

struct gm_error *gm_render_estimate_json(const struct gm_estimate_answer *answer, FILE *out)
{
	const struct gm_estimate *estimate = &answer->estimate;
	json_t *terms = json_array(), *ways = json_array(), *notes = json_array();
	for (unsigned i = 0; terms && i < GM_ESTIMATE_TERMS; i++)
		if (estimate->terms[i].there)
			json_array_append_new(terms,
			        term_json(&estimate->terms[i], (enum gm_estimate_term_kind)i));
	for (size_t i = 0; ways && i < estimate->other_count; i++)
		json_array_append_new(
		        ways, json_pack("{s:s,s:o,s:o}", "way",
		                      gm_estimate_way_name(estimate->others[i].way), "activations",
		                      number(estimate->others[i].activations), "total",
		                      number(estimate->others[i].total)));
	for (unsigned i = 0; notes && i < GM_ESTIMATE_NOTES; i++)
		if (estimate->notes[i])
			json_array_append_new(notes,
			        json_string(gm_estimate_note_name((enum gm_estimate_note)i)));
	const uint64_t budget = estimate->settings.budget;
	const bool training = !estimate->settings.inference;
	json_t *whole = json_pack(
	        "{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "method",
	        "formula", "model", model_json(&answer->model), "settings", settings_json(estimate),
	        "stage", number(estimate->stage), "local_parameters", number(estimate->local),
	        "terms", terms, "model_states", number(estimate->states), "backward_peak",
	        training ? number(estimate->backward) : json_null(), "optimizer_peak",
	        training ? number(estimate->optimizer) : json_null(), "total",
	        number(estimate->total), "peak", gm_estimate_peak_name(estimate->peak),
	        "host_bytes", number(estimate->host), "text_summary_total",
	        training ? number(estimate->text_summary) : json_null(), "by_way", ways, "notes",
	        notes, "budget", budget ? number(budget) : json_null(), "fits",
	        budget ? json_boolean(estimate->fits) : json_null());
	return gm_json_write(whole, false, out);
}
