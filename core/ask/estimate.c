#include "ask/estimate.h"

#include "base/cleanup.h"

struct gm_error *gm_ask_estimate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *ret_answer)
{
	struct gm_estimate_answer answer;
	gm_try(gm_estimate_model_read(options->path, &options->given, &answer.model));
	struct gm_error *error =
	        gm_estimate_formula(&answer.model, &options->settings, &answer.estimate);
	if (error) {
		gm_estimate_model_deinit(&answer.model);
		return error;
	}
	*ret_answer = answer;
	return NULL;
}

void gm_estimate_answer_deinit(struct gm_estimate_answer *answer)
{
	gm_estimate_model_deinit(&answer->model);
}
