/*
 * Autocast: the results of multiplications and what is computed of them elementwise become half as
 * large. What its rules keep in float32 stays (softmax, losses), and a copy in half precision is
 * made of it where a multiplication reads it: so softmax's result is there one and a half times.
 * The result of a normalization is read by multiplications alone, and only the copy stays. Each
 * step makes copies of the weights too, which backward keeps (torch/amp/autocast_mode.py and
 * aten/src/ATen/autocast_mode.h have the lists of operators).
 */
#include "ask/advise/measures.h"
#include "base/cleanup.h"

enum { FLOAT32 = 6 /* c10::ScalarType */ };

static bool passes_through(const struct gm_advise_facts *facts, uint32_t block)
{
	enum gm_phase phase = gm_advise_phase(facts, block);
	enum gm_category category = gm_advise_category(facts, block);
	return gm_advise_counts(facts, block) && gm_advise_step(facts, block) &&
	       (phase == GM_PHASE_FORWARD || phase == GM_PHASE_BACKWARD ||
	               phase == GM_PHASE_RECOMPUTE) &&
	       (category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_TEMPORARY);
}

static bool is_float32(
        const struct gm_advise_facts *facts, uint32_t block, struct gm_log_tensor *ret_tensor)
{
	return gm_advise_tensor(facts, block, ret_tensor) && ret_tensor->type == FLOAT32;
}

static uint64_t halved(uint64_t size)
{
	return gm_whatif_round((size + 1) / 2);
}

/* The copies of a step's weights: of matrices, as biases are copied too and are small. Of an
 * embedding none is made, which the recording does not tell apart: the most has none at all. */
static uint64_t weights(const struct gm_advise_facts *facts, const struct gm_whatif *whatif)
{
	uint64_t bytes = 0;
	gm_advise_each(facts, GM_CATEGORY_PARAMETER, i)
	{
		struct gm_log_tensor tensor;
		if (is_float32(facts, i, &tensor) && tensor.dimensions > 1)
			bytes += halved(whatif->size[i]);
	}
	return bytes;
}

struct gm_error *gm_measure_autocast(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_log_tensor tensor;
		if (!passes_through(facts, i) || !is_float32(facts, i, &tensor))
			continue;
		uint64_t size = whatif->size[i];
		uint8_t signs = gm_advise_sign(facts, i);
		if (signs & (GM_SIGN_MATMUL | GM_SIGN_FOLLOWS))
			gm_whatif_resize(whatif, i, halved(size));
		else if (signs & GM_SIGN_NORM && bound != GM_BOUND_LEAST)
			gm_whatif_resize(whatif, i, halved(size));
		else if (signs & GM_SIGN_SOFTMAX && bound != GM_BOUND_MOST &&
		         gm_advise_phase(facts, i) == GM_PHASE_FORWARD)
			gm_whatif_resize(whatif, i, size + halved(size));
	}
	if (!whatif->changes || bound == GM_BOUND_MOST)
		return NULL;
	uint64_t copies = weights(facts, whatif);
	for (uint32_t step = 1; step <= facts->step_count; step++) {
		const struct gm_step_bounds *bounds = &facts->steps[step];
		if (bounds->forward != GM_NO_EVENT)
			gm_whatif_add(whatif, bounds->forward,
			        bounds->backward == GM_NO_EVENT ? bounds->forward_end
			                                        : bounds->backward_end,
			        copies);
	}
	return NULL;
}
