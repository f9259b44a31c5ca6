/* estimate: what a model needs in training or inference, before anything runs. */
#ifndef GM_ASK_ESTIMATE_H
#define GM_ASK_ESTIMATE_H

#include "estimate/estimate.h"

struct gm_estimate_options {
	const char *path; /* a config.json, a folder with one, a safetensors file; NULL: numbers */
	struct gm_estimate_numbers given;
	struct gm_estimate_settings settings;
};

struct gm_estimate_answer {
	struct gm_estimate_model model;
	struct gm_estimate estimate;
};

struct gm_error *gm_ask_estimate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *ret_answer);
void gm_estimate_answer_deinit(struct gm_estimate_answer *answer);

#endif
