#include "render/amp_now.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/put.h"
#include "render/json.h"

static void put_value(const char *what, const struct gm_amp_value *value, FILE *out)
{
	if (value->known)
		gm_put(out, ", %s %.10g", what, value->value);
	else
		gm_put(out, ", %s unknown", what);
}

static void put_scaler(const struct gm_amp_scaler *scaler, FILE *out)
{
	gm_put(out, "GradScaler at 0x%" PRIx64, scaler->object);
	if (scaler->enabled.known && scaler->enabled.value == 0) {
		fputs(": disabled\n", out);
		return;
	}
	if (scaler->has_scale) {
		put_value("scale", &scaler->scale, out);
		put_value("growth tracker", &scaler->tracker, out);
	} else {
		put_value("not used yet; begins with scale", &scaler->init_scale, out);
	}
	put_value("growth factor", &scaler->growth_factor, out);
	put_value("growth interval", &scaler->growth_interval, out);
	put_value("backoff factor", &scaler->backoff_factor, out);
	fputc('\n', out);
	for (uint32_t i = 0; i < scaler->checks && i < GM_AMP_NOW_MAX; i++)
		gm_put(out, "  gradients checked in this iteration: %s\n",
		        !scaler->found[i].known ? "found_inf is on the device: unknown"
		        : scaler->found[i].value != 0
		                ? "found inf, so the optimizer's step is skipped"
		                : "all are finite");
}

static void put_loss_scaler(const struct gm_amp_loss_scaler *scaler, FILE *out)
{
	gm_put(out, "%s at 0x%" PRIx64 " (DeepSpeed)",
	        scaler->class ? scaler->class : "loss scaler", scaler->object);
	put_value("scale", &scaler->scale, out);
	if (scaler->factor.known)
		put_value("scale factor", &scaler->factor, out);
	if (scaler->window.known)
		put_value("scale window", &scaler->window, out);
	fputc('\n', out);
	if (!scaler->iterations.known || !scaler->last_overflow.known)
		return;
	if (scaler->last_overflow.value < 0)
		gm_put(out, "  %.0f steps, and no overflow in them\n", scaler->iterations.value);
	else
		gm_put(out,
		        "  %.0f steps; the last one that overflowed, and was skipped, was step "
		        "%.0f\n",
		        scaler->iterations.value, scaler->last_overflow.value + 1);
}

static void put_engine(const struct gm_amp_engine *engine, FILE *out)
{
	gm_put(out, "DeepSpeedEngine at 0x%" PRIx64, engine->object);
	put_value("steps", &engine->steps, out);
	put_value("skipped", &engine->skipped, out);
	if (engine->skipped.known && engine->skipped.value > 0)
		fputs(": a gradient was inf or NaN, so no parameter and no moment changed", out);
	fputc('\n', out);
}

static void put_dtypes(const char *what, const struct gm_amp_dtype *dtypes, FILE *out)
{
	gm_put(out, "  %s:", what);
	for (int i = 0; i < GM_AMP_NOW_DTYPES && dtypes[i].dtype; i++)
		gm_put(out, "%s %" PRIu64 " %s (%" PRIu64 " elements)", i ? "," : "",
		        dtypes[i].tensors, dtypes[i].dtype, dtypes[i].elements);
	fputs(dtypes[0].dtype ? "\n" : " none\n", out);
}

static void put_optimizer(const struct gm_amp_optimizer *optimizer, FILE *out)
{
	gm_put(out,
	        "%s at 0x%" PRIx64 ": %" PRIu64 " parameter%s, %" PRIu64 " of them with state\n",
	        optimizer->class ? optimizer->class : "optimizer", optimizer->object,
	        optimizer->parameters, gm_text_s(optimizer->parameters), optimizer->with_state);
	put_dtypes("parameters", optimizer->dtypes, out);
	put_dtypes("gradients", optimizer->gradients, out);
	if (!optimizer->with_state && optimizer->parameters)
		fputs("  no state yet: an optimizer makes it in its first step that is not "
		      "skipped\n",
		        out);
}

struct gm_error *gm_render_amp_now_text(const struct gm_amp_now *now, FILE *out)
{
	if (!now->scaler_count && !now->loss_scaler_count)
		fputs("No GradScaler is in the process.\n", out);
	for (size_t i = 0; i < now->scaler_count && i < GM_AMP_NOW_MAX; i++)
		put_scaler(&now->scalers[i], out);
	for (size_t i = 0; i < now->loss_scaler_count && i < GM_AMP_NOW_MAX; i++)
		put_loss_scaler(&now->loss_scalers[i], out);
	for (size_t i = 0; i < now->engine_count && i < GM_AMP_NOW_MAX; i++)
		put_engine(&now->engines[i], out);
	for (size_t i = 0; i < now->optimizer_count && i < GM_AMP_NOW_MAX; i++)
		put_optimizer(&now->optimizers[i], out);
	if (now->scaler_count > GM_AMP_NOW_MAX || now->optimizer_count > GM_AMP_NOW_MAX)
		gm_put(out,
		        "There are %zu scalers and %zu optimizers: the first %d of each are "
		        "shown.\n",
		        now->scaler_count, now->optimizer_count, GM_AMP_NOW_MAX);
	return NULL;
}

static json_t *value_json(const struct gm_amp_value *value)
{
	return value->known ? json_real(value->value) : json_null();
}

static json_t *scaler_json(const struct gm_amp_scaler *scaler)
{
	json_t *value = json_object(), *found = json_array();
	for (uint32_t i = 0; i < scaler->checks && i < GM_AMP_NOW_MAX; i++)
		json_array_append_new(found, scaler->found[i].known
		                                     ? json_boolean(scaler->found[i].value != 0)
		                                     : json_null());
	json_object_set_new(value, "address", gm_json_address(scaler->object));
	json_object_set_new(value, "enabled",
	        scaler->enabled.known ? json_boolean(scaler->enabled.value != 0) : json_null());
	json_object_set_new(value, "growth_factor", value_json(&scaler->growth_factor));
	json_object_set_new(value, "backoff_factor", value_json(&scaler->backoff_factor));
	json_object_set_new(value, "growth_interval", value_json(&scaler->growth_interval));
	json_object_set_new(value, "init_scale", value_json(&scaler->init_scale));
	json_object_set_new(value, "scale", value_json(&scaler->scale));
	json_object_set_new(value, "growth_tracker", value_json(&scaler->tracker));
	json_object_set_new(value, "found_inf", found);
	return value;
}

static json_t *loss_scaler_json(const struct gm_amp_loss_scaler *scaler)
{
	json_t *value = json_object();
	json_object_set_new(value, "address", gm_json_address(scaler->object));
	json_object_set_new(
	        value, "class", scaler->class ? gm_json_string(scaler->class) : json_null());
	json_object_set_new(value, "scale", value_json(&scaler->scale));
	json_object_set_new(value, "steps", value_json(&scaler->iterations));
	json_object_set_new(value, "last_overflow",
	        scaler->last_overflow.known && scaler->last_overflow.value >= 0
	                ? json_real(scaler->last_overflow.value + 1)
	                : json_null());
	json_object_set_new(value, "scale_factor", value_json(&scaler->factor));
	json_object_set_new(value, "scale_window", value_json(&scaler->window));
	return value;
}

static json_t *engine_json(const struct gm_amp_engine *engine)
{
	json_t *value = json_object();
	json_object_set_new(value, "address", gm_json_address(engine->object));
	json_object_set_new(value, "steps", value_json(&engine->steps));
	json_object_set_new(value, "skipped_steps", value_json(&engine->skipped));
	return value;
}

static json_t *dtypes_json(const struct gm_amp_dtype *dtypes)
{
	json_t *value = json_object();
	for (int i = 0; i < GM_AMP_NOW_DTYPES && dtypes[i].dtype; i++)
		json_object_set_new(value, dtypes[i].dtype,
		        json_pack("{s:I, s:I}", "tensors", (json_int_t)dtypes[i].tensors,
		                "elements", (json_int_t)dtypes[i].elements));
	return value;
}

static json_t *optimizer_json(const struct gm_amp_optimizer *optimizer)
{
	json_t *value = json_object();
	json_object_set_new(value, "address", gm_json_address(optimizer->object));
	json_object_set_new(
	        value, "class", optimizer->class ? gm_json_string(optimizer->class) : json_null());
	json_object_set_new(value, "parameters", json_integer((json_int_t)optimizer->parameters));
	json_object_set_new(value, "with_state", json_integer((json_int_t)optimizer->with_state));
	json_object_set_new(value, "parameter_dtypes", dtypes_json(optimizer->dtypes));
	json_object_set_new(value, "gradient_dtypes", dtypes_json(optimizer->gradients));
	return value;
}

struct gm_error *gm_render_amp_now_json(const struct gm_amp_now *now, FILE *out)
{
	json_t *value = json_object(), *scalers = json_array(), *optimizers = json_array();
	for (size_t i = 0; i < now->scaler_count && i < GM_AMP_NOW_MAX; i++)
		json_array_append_new(scalers, scaler_json(&now->scalers[i]));
	for (size_t i = 0; i < now->optimizer_count && i < GM_AMP_NOW_MAX; i++)
		json_array_append_new(optimizers, optimizer_json(&now->optimizers[i]));
	json_t *loss_scalers = json_array(), *engines = json_array();
	for (size_t i = 0; i < now->loss_scaler_count && i < GM_AMP_NOW_MAX; i++)
		json_array_append_new(loss_scalers, loss_scaler_json(&now->loss_scalers[i]));
	for (size_t i = 0; i < now->engine_count && i < GM_AMP_NOW_MAX; i++)
		json_array_append_new(engines, engine_json(&now->engines[i]));
	json_object_set_new(value, "loss_scalers", loss_scalers);
	json_object_set_new(value, "engines", engines);
	json_object_set_new(value, "scaler_count", json_integer((json_int_t)now->scaler_count));
	json_object_set_new(value, "scalers", scalers);
	json_object_set_new(
	        value, "optimizer_count", json_integer((json_int_t)now->optimizer_count));
	json_object_set_new(value, "optimizers", optimizers);
	return gm_json_write(value, true, out);
}
