#include <jansson.h>

#include "ask/recording/amp_outcomes.h"
#include "render/amp.h"
#include "render/json.h"
#include "render/tensor.h"

static json_t *number_or_null(bool known, double value)
{
	return known ? json_real(value) : json_null();
}

static json_t *step_or_null(uint32_t step)
{
	return step ? json_integer(step) : json_null();
}

static json_t *place_json(const struct gm_frame_place *place)
{
	return place->code ? gm_json_place(place->file, place->line, place->function) : json_null();
}

static json_t *site_json(const struct gm_log *log, uint32_t stack)
{
	struct gm_frame_place place = {0};
	gm_place_site(log, stack, &place);
	return place_json(&place);
}

/* Whether parameters and moments changed; null: not known. */
static json_t *updated_json(enum gm_amp_outcome outcome)
{
	switch (outcome) {
	case GM_AMP_STEP_TAKEN:
	case GM_AMP_STEP_PARTLY:
		return json_true();
	case GM_AMP_STEP_SKIPPED:
	case GM_AMP_STEP_NOT_ASKED:
		return json_false();
	default:
		return json_null();
	}
}

static json_t *gradient_json(const struct gm_amp *amp, const struct gm_amp_gradient *gradient)
{
	const struct gm_log *log = gm_model_log(amp->model);
	uint32_t made = gradient->block == GM_NO_BLOCK
	                        ? GM_NO_EVENT
	                        : gm_model_block(amp->model, gradient->block)->alloc;
	struct gm_event event = {0};
	json_t *value = json_object();
	if (made != GM_NO_EVENT)
		gm_log_event(log, made, &event);
	json_object_set_new(value, "name", gm_json_string_or_null(gradient->name));
	json_object_set_new(value, "index", json_integer(gradient->index));
	json_object_set_new(value, "of", json_integer(gradient->count));
	json_object_set_new(value, "block", gm_json_event_or_null(made));
	json_object_set_new(value, "address", gm_json_address(gradient->address));
	gm_json_set_tensor(value, log, event.tensor);
	json_object_set_new(value, "elements", json_integer((json_int_t)gradient->elements));
	json_object_set_new(value, "not_finite", json_integer((json_int_t)gradient->not_finite));
	json_object_set_new(value, "nan", json_integer((json_int_t)gradient->nan));
	return value;
}

/* null: the values could not be read, or nothing was found. */
static json_t *looked_json(const struct gm_amp *amp, const struct gm_amp_looked *looked)
{
	if (!looked->looked)
		return json_null();
	json_t *value = json_object(), *items = json_array();
	json_object_set_new(value, "gradients", json_integer((json_int_t)looked->gradients));
	json_object_set_new(value, "read", json_integer((json_int_t)looked->read));
	json_object_set_new(value, "not_finite", json_integer((json_int_t)looked->not_finite));
	json_object_set_new(value, "ordered", json_boolean(looked->ordered));
	for (size_t i = 0; i < looked->count; i++)
		json_array_append_new(
		        items, gradient_json(amp, &amp->not_finite[looked->first + i]));
	json_object_set_new(value, "items", items);
	return value;
}

static json_t *call_json(const struct gm_amp *amp, const struct gm_scaled_step *call)
{
	json_t *value = json_object();
	json_object_set_new(value, "outcome", json_string(gm_scaled_outcome_name(call->outcome)));
	json_object_set_new(
	        value, "evidence", json_string(gm_scaled_evidence_name(call->evidence)));
	json_object_set_new(
	        value, "found_inf", call->found_known ? json_boolean(call->found) : json_null());
	json_object_set_new(value, "on_device", json_boolean(call->on_device));
	json_object_set_new(
	        value, "gradients", call->gradients ? json_integer(call->gradients) : json_null());
	json_object_set_new(
	        value, "not_finite", looked_json(amp, &amp->looked[call - amp->scaling.steps]));
	json_object_set_new(value, "event", json_integer(call->event));
	json_object_set_new(
	        value, "place", site_json(gm_model_log(amp->model), call->python_stack));
	return value;
}

static json_t *steps_json(const struct gm_amp *amp)
{
	json_t *steps = json_array();
	for (size_t i = 0; i < amp->step_count; i++) {
		const struct gm_amp_step *step = &amp->steps[i];
		json_t *one = json_object(), *calls = json_array();
		json_object_set_new(one, "step", json_integer(step->step));
		json_object_set_new(
		        one, "outcome", json_string(gm_amp_outcome_name(step->outcome)));
		json_object_set_new(
		        one, "evidence", json_string(gm_scaled_evidence_name(step->evidence)));
		json_object_set_new(one, "updated", updated_json(step->outcome));
		const struct gm_scale_update *update = step->update;
		json_object_set_new(one, "scale",
		        number_or_null(update && update->scale_known, update ? update->scale : 0));
		json_object_set_new(one, "growth_tracker",
		        number_or_null(
		                update && update->tracker_known, update ? update->tracker : 0));
		for (uint32_t k = 0; k < step->calls; k++)
			json_array_append_new(
			        calls, call_json(amp, &amp->scaling.steps[step->first_call + k]));
		json_object_set_new(one, "scaler_steps", calls);
		json_array_append_new(steps, one);
	}
	return steps;
}

static json_t *scaler_json(const struct gm_amp *amp)
{
	if (!amp->scaling.step_count)
		return json_null();
	json_t *value = json_object();
	json_object_set_new(value, "recorded", json_boolean(amp->scaling.recorded));
	const struct gm_scale_update *last =
	        amp->scaling.update_count ? &amp->scaling.updates[amp->scaling.update_count - 1]
	                                  : NULL;
	json_object_set_new(
	        value, "growth_factor", number_or_null(last, last ? last->growth_factor : 0));
	json_object_set_new(
	        value, "backoff_factor", number_or_null(last, last ? last->backoff_factor : 0));
	json_object_set_new(
	        value, "growth_interval", number_or_null(last, last ? last->growth_interval : 0));
	json_object_set_new(
	        value, "scale", number_or_null(last && last->scale_known, last ? last->scale : 0));
	json_object_set_new(value, "growth_tracker",
	        number_or_null(last && last->tracker_known, last ? last->tracker : 0));
	return value;
}

static json_t *block_json(const struct gm_amp *amp, uint32_t index)
{
	const struct gm_log *log = gm_model_log(amp->model);
	const struct gm_block *block = gm_model_block(amp->model, index);
	json_t *value = json_object();
	struct gm_event event = {0};
	uint32_t end = gm_block_end(block);
	if (block->alloc != GM_NO_EVENT)
		gm_log_event(log, block->alloc, &event);
	json_object_set_new(value, "block", gm_json_event_or_null(block->alloc));
	json_object_set_new(value, "address", gm_json_address(block->address));
	json_object_set_new(value, "size", json_integer((json_int_t)block->size));
	gm_json_set_tensor(value, log, event.tensor);
	json_object_set_new(value, "step",
	        step_or_null(
	                block->alloc == GM_NO_EVENT ? 0 : gm_model_step(amp->model, block->alloc)));
	json_object_set_new(value, "freed", gm_json_event_or_null(end));
	json_object_set_new(value, "place", site_json(log, event.python_stack));
	return value;
}

static json_t *parameters_json(const struct gm_amp *amp)
{
	json_t *parameters = json_array();
	for (size_t i = 0; i < amp->parameter_count; i++) {
		const struct gm_amp_parameter *parameter = &amp->parameters[i];
		json_t *one = block_json(amp, parameter->block), *ends = json_object();
		for (int k = 0; k < GM_AMP_END_COUNT; k++)
			json_object_set_new(ends, gm_amp_end_name((enum gm_amp_end)k),
			        json_integer(parameter->ends[k]));
		json_object_set_new(one, "copies", json_integer(parameter->copies));
		json_object_set_new(
		        one, "copy_bytes", json_integer((json_int_t)parameter->copy_bytes));
		json_object_set_new(one, "first_copy", block_json(amp, parameter->first_copy));
		json_object_set_new(one, "last_copy", block_json(amp, parameter->last_copy));
		json_object_set_new(one, "copies_kept_by", ends);
		json_array_append_new(parameters, one);
	}
	return parameters;
}

static json_t *gradients_json(const struct gm_amp *amp)
{
	json_t *gradients = json_array();
	for (size_t i = 0; i < amp->gradient_count; i++) {
		const struct gm_amp_gradients *group = &amp->gradients[i];
		json_t *one = json_object();
		json_object_set_new(one, "count", json_integer(group->count));
		json_object_set_new(one, "half", block_json(amp, group->first_half));
		json_object_set_new(one, "half_operator", gm_json_string_or_null(group->operator));
		json_object_set_new(one, "half_node", gm_json_string_or_null(group->node));
		json_object_set_new(one, "full", block_json(amp, group->first_full));
		json_object_set_new(
		        one, "full_operator", gm_json_string_or_null(group->full_operator));
		json_object_set_new(one, "full_node", gm_json_string_or_null(group->full_node));
		json_array_append_new(gradients, one);
	}
	return gradients;
}

static json_t *releases_json(const struct gm_amp *amp)
{
	json_t *releases = json_array();
	for (size_t i = 0; i < amp->release_count; i++) {
		const struct gm_amp_release *release = &amp->releases[i];
		json_t *one = json_object();
		json_object_set_new(one, "step", step_or_null(release->step));
		json_object_set_new(one, "blocks", json_integer((json_int_t)release->blocks));
		json_object_set_new(one, "bytes", json_integer((json_int_t)release->bytes));
		json_object_set_new(one, "released", json_boolean(!release->never));
		json_object_set_new(one, "released_step", step_or_null(release->released));
		json_object_set_new(one, "first_event", gm_json_event_or_null(release->first));
		json_object_set_new(one, "last_event", gm_json_event_or_null(release->last));
		json_object_set_new(one, "cause",
		        release->never ? json_null() : json_string(gm_cause_name(release->cause)));
		json_object_set_new(one, "zero_grad", json_boolean(release->by_zero_grad));
		json_object_set_new(one, "place", place_json(&release->statement));
		json_object_set_new(one, "phase_before",
		        release->before ? json_string(gm_phase_name(release->before))
		                        : json_null());
		json_object_set_new(one, "phase_after",
		        release->after ? json_string(gm_phase_name(release->after)) : json_null());
		json_array_append_new(releases, one);
	}
	return releases;
}

static json_t *state_json(const struct gm_amp *amp)
{
	if (!amp->state_blocks)
		return json_null();
	return json_pack("{s:I, s:I, s:o, s:i, s:i}", "bytes", (json_int_t)amp->state_bytes,
	        "blocks", (json_int_t)amp->state_blocks, "step", step_or_null(amp->state_step),
	        "first_event", (int)amp->state_first, "last_event", (int)amp->state_last);
}

static json_t *bytes_json(const struct gm_amp *amp)
{
	const struct gm_amp_bytes *bytes = &amp->bytes;
	if (bytes->event == GM_NO_EVENT)
		return json_null();
	return json_pack("{s:i, s:I, s:I, s:I, s:I, s:o}", "event", (int)bytes->event, "allocated",
	        (json_int_t)bytes->allocated, "half", (json_int_t)bytes->half, "copies",
	        (json_int_t)bytes->copies, "unknown_dtype", (json_int_t)bytes->unknown,
	        "float32_estimate",
	        amp->has_tensors ? json_integer((json_int_t)bytes->full) : json_null());
}

struct gm_error *gm_render_amp_json(const struct gm_amp *amp, FILE *out)
{
	json_t *value = json_object(), *dtypes = json_array();
	bool there = amp->device != SIZE_MAX;
	if (amp->casts[0])
		json_array_append_new(dtypes, json_string("float16"));
	if (amp->casts[1])
		json_array_append_new(dtypes, json_string("bfloat16"));
	json_object_set_new(value, "device",
	        there ? json_integer(gm_model_device(amp->model, amp->device)->index)
	              : json_null());
	json_object_set_new(value, "scaler", scaler_json(amp));
	json_object_set_new(value, "autocast", json_boolean(amp->autocast));
	json_object_set_new(value, "autocast_dtypes", dtypes);
	json_object_set_new(value, "steps", steps_json(amp));
	json_object_set_new(value, "optimizer_state", there ? state_json(amp) : json_null());
	json_object_set_new(
	        value, "parameter_bytes", json_integer((json_int_t)amp->parameter_bytes));
	json_object_set_new(
	        value, "parameter_blocks", json_integer((json_int_t)amp->parameter_blocks));
	json_object_set_new(value, "copies_recorded", json_boolean(amp->has_casts));
	json_object_set_new(value, "parameters", parameters_json(amp));
	json_object_set_new(value, "gradients", gradients_json(amp));
	json_object_set_new(value, "releases", releases_json(amp));
	json_object_set_new(value, "releases_truncated", json_boolean(amp->truncated));
	json_object_set_new(value, "peak", there ? bytes_json(amp) : json_null());
	return gm_json_write(value, true, out);
}
