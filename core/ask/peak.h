/*
 * The question `peak`: what was allocated when the allocated bytes first reached their maximum, and
 * the other peak of a training step.
 */
#ifndef GM_ASK_PEAK_H
#define GM_ASK_PEAK_H

#include "ask/blocks.h"

/*
 * A training step has two peaks, one where backward begins, which grows with the batch,
 * and one in the optimizer, which does not. Which of them is the higher one decides what helps.
 */
struct gm_secondary_peak {
	bool known; /* false: the peak is in neither, or the recording has only one of them */
	uint32_t event, step;
	enum gm_phase phase;
	uint64_t allocated;
	/* Times the batch above which the model's peak is the higher one, if activations, inputs
	 * and temporaries grow as the batch does, and nothing else; 0: at none. A bound from below:
	 * a weight cast to half precision is an activation too, and does not grow. */
	double equal_at;
};

struct gm_peak {
	struct gm_blocks blocks;
	/* The same by the paths of modules, where a process or core is asked that knows them;
	 * without groups: none is. */
	struct gm_blocks modules;
	struct gm_secondary_peak secondary;
};

/* `at_peak` is set by this. modules: by the modules' paths as well. */
struct gm_error *gm_ask_peak(struct gm_context *context, const struct gm_blocks_options *options,
        bool modules, struct gm_peak *ret_peak);
void gm_peak_deinit(struct gm_peak *peak);

#endif
