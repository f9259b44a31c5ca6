#include "ask/estimate.h"

#include <string.h>

#include "base/cleanup.h"

static bool has_numbers(const struct gm_estimate_numbers *given)
{
	return given->parameters || given->layers || given->hidden || given->heads ||
	       given->kv_heads || given->head_dim || given->intermediate || given->vocab ||
	       given->architecture;
}

static struct gm_error *simulate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *answer)
{
	struct gm_estimate_settings *settings = &answer->estimate.settings;
	if (!options->simulate)
		return NULL;
	if (answer->model.input != GM_ESTIMATE_CONFIG || has_numbers(&options->given))
		return gm_error_create(GM_USAGE,
		        "estimate: --method simulate: it builds the model of a config.json as it "
		        "is: name one, and leave out the numbers");
	gm_try(gm_estimate_simulate(answer->model.path,
	        options->python ? options->python : "python3", settings, &answer->simulated));
	answer->has_simulated = true;
	if (!answer->has_formula)
		answer->model.counts.total = answer->simulated.parameters;
	return NULL;
}

static struct gm_error *apply_formula(
        const struct gm_estimate_options *options, struct gm_estimate_answer *answer)
{
	const struct gm_estimate_model *model = &answer->model;
	answer->has_formula = model->has_shape || model->counts.total;
	if (answer->has_formula)
		return gm_estimate_formula(model, &options->settings, &answer->estimate);
	answer->estimate.settings = options->settings;
	if (!options->settings.dtype)
		answer->estimate.settings.dtype = model->dtype ? model->dtype : GM_ESTIMATE_FLOAT32;
	return NULL;
}

struct gm_error *gm_ask_estimate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *ret_answer)
{
	struct gm_estimate_answer answer = {0};
	struct gm_estimate_numbers given = options->given;
	given.any_architecture = options->simulate;
	gm_try(gm_estimate_model_read(options->path, &given, &answer.model));
	struct gm_error *error = apply_formula(options, &answer);
	if (!error)
		error = simulate(options, &answer);
	if (error) {
		gm_estimate_model_deinit(&answer.model);
		return error;
	}
	answer.total = answer.has_simulated ? answer.simulated.total : answer.estimate.total;
	answer.fits = !options->settings.budget || answer.total <= options->settings.budget;
	*ret_answer = answer;
	return NULL;
}

void gm_estimate_answer_deinit(struct gm_estimate_answer *answer)
{
	gm_estimate_model_deinit(&answer->model);
}
