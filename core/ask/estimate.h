/* estimate: what a model needs in training or inference, before anything runs. */
#ifndef GM_ASK_ESTIMATE_H
#define GM_ASK_ESTIMATE_H

#include "estimate/estimate.h"

struct gm_estimate_options {
	const char *path; /* a config.json, a folder with one, a safetensors file; NULL: numbers */
	struct gm_estimate_numbers given;
	struct gm_estimate_settings settings;
	bool simulate;      /* build the model as well */
	bool hooks;         /* build it, and count what its modules return */
	const char *python; /* with PyTorch and transformers; NULL: python3 */
};

struct gm_estimate_answer {
	struct gm_estimate_model model;
	bool has_formula; /* not: the architecture is not known, and `estimate` has settings alone
	                   */
	struct gm_estimate estimate;
	bool has_simulated;
	struct gm_estimate_simulated simulated;
	bool has_hooked;
	struct gm_estimate_hooked hooked;
	uint64_t total; /* bytes: the simulation's, where there is one */
	bool fits;
};

struct gm_error *gm_ask_estimate(
        const struct gm_estimate_options *options, struct gm_estimate_answer *ret_answer);
void gm_estimate_answer_deinit(struct gm_estimate_answer *answer);

#endif
