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
	        settings->inference, "activations",
	        settings->way ? gm_estimate_way_name(settings->way) : "operators");
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

static json_t *simulated_json(const struct gm_estimate_answer *answer)
{
	const struct gm_estimate_simulated *found = &answer->simulated;
	if (!answer->has_simulated)
		return json_null();
	json_t *value = json_pack("{s:o,s:o,s:f}", "torch", gm_json_string(found->torch),
	        "transformers", gm_json_string(found->transformers), "seconds", found->seconds);
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
	        {"parameter_bytes", found->parameter_bytes},
	        {"gradients", found->gradients},
	        {"optimizer_state", found->state},
	        {"activations", found->activations},
	        {"kv_cache", found->kv_cache},
	        {"backward_peak", found->backward},
	        {"optimizer_peak", found->optimizer},
	        {"inference_peak", found->inference},
	        {"total", found->total},
	        {"reserved", found->reserved},
	};
	for (size_t i = 0; value && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(value, numbers[i].name, number(numbers[i].value));
	return value;
}

static json_t *hooked_json(const struct gm_estimate_answer *answer)
{
	const struct gm_estimate_hooked *found = &answer->hooked;
	if (!answer->has_hooked)
		return json_null();
	return json_pack("{s:o,s:o,s:s,s:f,s:o,s:o,s:o}", "torch", gm_json_string(found->torch),
	        "transformers", gm_json_string(found->transformers), "device",
	        found->on_meta ? "meta" : "cuda", "seconds", found->seconds, "modules",
	        number(found->modules), "token_bytes", number(found->token), "bytes",
	        number(found->bytes));
}

/* Of the requested method. */
static enum gm_estimate_peak peak_of(const struct gm_estimate_answer *answer)
{
	const struct gm_estimate_simulated *found = &answer->simulated;
	if (!answer->has_simulated)
		return answer->estimate.peak;
	return found->inference                     ? GM_ESTIMATE_PEAK_INFERENCE
	       : found->backward > found->optimizer ? GM_ESTIMATE_PEAK_BACKWARD
	                                            : GM_ESTIMATE_PEAK_OPTIMIZER;
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
	const bool formula = answer->has_formula,
	           training = formula && !estimate->settings.inference;
	json_t *whole = json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s}", "method",
	        answer->has_simulated ? "simulate"
	        : answer->has_hooked  ? "hooks"
	                              : "formula",
	        "model", model_json(&answer->model), "settings", settings_json(estimate), "stage",
	        formula ? number(estimate->stage) : json_null(), "local_parameters",
	        formula ? number(estimate->local) : json_null(), "terms", terms, "model_states",
	        formula ? number(estimate->states) : json_null(), "backward_peak",
	        training ? number(estimate->backward) : json_null(), "optimizer_peak",
	        training ? number(estimate->optimizer) : json_null(), "formula_total",
	        formula ? number(estimate->total) : json_null(), "total", number(answer->total),
	        "peak", gm_estimate_peak_name(peak_of(answer)));
	const struct {
		const char *name;
		json_t *value;
	} rest[] = {
	        {"host_bytes", number(estimate->host)},
	        {"text_summary_total", training ? number(estimate->text_summary) : json_null()},
	        {"by_way", ways},
	        {"simulated", simulated_json(answer)},
	        {"hooks", hooked_json(answer)},
	        {"notes", notes},
	        {"budget", budget ? number(budget) : json_null()},
	        {"fits", budget ? json_boolean(answer->fits) : json_null()},
	};
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		json_object_set_new(whole, rest[i].name, rest[i].value);
	return gm_json_write(whole, false, out);
}
