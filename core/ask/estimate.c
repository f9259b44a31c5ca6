#include "ask/estimate.h"

#include <string.h>

#include "base/cleanup.h"

static bool has_numbers(const struct gm_estimate_numbers *given)
{
	return given->parameters || given->layers || given->hidden || given->heads ||
	       given->kv_heads || given->head_dim || given->intermediate || given->vocab ||
	       given->architecture;
}

/* A model can be built only if its config is given and nothing else. */
static struct gm_error *check_config(const struct gm_estimate_options *options,
        const struct gm_estimate_answer *answer, const char *method)
{
	if (answer->model.input == GM_ESTIMATE_CONFIG && !has_numbers(&options->given))
		return NULL;
	return gm_error_create(GM_USAGE,
	        "estimate: --method %s: it builds the model of a config.json as it is: name one, "
	        "and leave out the numbers",
	        method);
}

static const char *python_of(const struct gm_estimate_options *options)
{
	return options->python ? options->python : "python3";
}

/* Before the formula, which uses the number. */
static struct gm_error *count_by_hooks(const struct gm_estimate_options *options,
        struct gm_estimate_settings *settings, struct gm_estimate_answer *answer)
{
	struct gm_estimate_model *model = &answer->model;
	if (!options->hooks)
		return NULL;
	gm_try(check_config(options, answer, "hooks"));
	if (!settings->dtype)
		settings->dtype = model->dtype ? model->dtype : GM_ESTIMATE_FLOAT32;
	gm_try(gm_estimate_hooks(model->path, python_of(options), settings, &answer->hooked));
	answer->has_hooked = true;
	settings->hooked = answer->hooked.bytes;
	if (!settings->way)
		settings->way = GM_ESTIMATE_BY_HOOKS;
	if (!model->has_shape)
		model->counts.total = answer->hooked.parameters;
	return NULL;
}

static struct gm_error *simulate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *answer)
{
	struct gm_estimate_settings *settings = &answer->estimate.settings;
	if (!options->simulate)
		return NULL;
	gm_try(check_config(options, answer, "simulate"));
	gm_try(gm_estimate_simulate(
	        answer->model.path, python_of(options), settings, &answer->simulated));
	answer->has_simulated = true;
	if (!answer->has_formula)
		answer->model.counts.total = answer->simulated.parameters;
	return NULL;
}

static struct gm_error *apply_formula(
        const struct gm_estimate_settings *settings, struct gm_estimate_answer *answer)
{
	const struct gm_estimate_model *model = &answer->model;
	answer->has_formula = model->has_shape || model->counts.total;
	if (answer->has_formula)
		return gm_estimate_formula(model, settings, &answer->estimate);
	answer->estimate.settings = *settings;
	if (!settings->dtype)
		answer->estimate.settings.dtype = model->dtype ? model->dtype : GM_ESTIMATE_FLOAT32;
	return NULL;
}

/* What one rank has is counted from the shape: the given number cannot be split. */
static struct gm_error *check_parameters(
        const struct gm_estimate_options *options, const struct gm_estimate_model *model)
{
	const struct gm_estimate_settings *settings = &options->settings;
	bool split = settings->tp > 1 || settings->pp > 1 || settings->ep > 1;
	if (!options->given.parameters || !model->has_shape || !split)
		return NULL;
	return gm_error_create(GM_USAGE, "estimate: --parameters: with --tp, --pp or --ep the "
	                                 "config's layers are counted: leave it out");
}

struct gm_error *gm_ask_estimate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *ret_answer)
{
	struct gm_estimate_answer answer = {0};
	struct gm_estimate_numbers given = options->given;
	struct gm_estimate_settings settings = options->settings;
	given.any_architecture = options->simulate || options->hooks;
	gm_try(gm_estimate_model_read(options->path, &given, &answer.model));
	struct gm_error *error = check_parameters(options, &answer.model);
	if (!error)
		error = count_by_hooks(options, &settings, &answer);
	if (!error)
		error = apply_formula(&settings, &answer);
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
