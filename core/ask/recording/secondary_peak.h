/*
 * The next peak: a training step has two, one where backward begins, which grows with the batch,
 * and one in the optimizer, which does not. Which of them is the higher one decides what helps.
 */
#ifndef GM_ASK_SECONDARY_PEAK_H
#define GM_ASK_SECONDARY_PEAK_H

#include "ask/blocks.h"

struct gm_secondary_peak {
	bool known; /* false: the peak is in neither, or the record has only one of them */
	uint32_t event, step;
	enum gm_phase phase;
	uint64_t allocated;
	/* Times the batch above which the model's peak is the higher one, if activations, inputs
	 * and temporaries grow as the batch does, and nothing else; 0: at none. A bound from below:
	 * a weight cast to half precision is an activation too, and does not grow. */
	double equal_at;
};

/* peak: an answer of gm_ask_blocks() at the main device's peak. */
struct gm_error *gm_ask_secondary_peak(struct gm_context *context, const struct gm_blocks *peak,
        struct gm_secondary_peak *ret_secondary_peak);

#endif
