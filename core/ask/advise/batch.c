/* Measures that put fewer samples through the model at a time. */
#include <string.h>

#include "ask/advise/measures.h"
#include "ask/advise/weights.h"
#include "base/cleanup.h"

static bool passes_through(enum gm_phase phase)
{
	return phase == GM_PHASE_FORWARD || phase == GM_PHASE_BACKWARD ||
	       phase == GM_PHASE_RECOMPUTE || phase == GM_PHASE_DATA || phase == GM_PHASE_OTHER;
}

/* Does the size of a block follow the batch? What looks like a parameter may be made of one, as a
 * gradient before it is added up and a copy in half precision are. */
static bool follows(const struct gm_advise_facts *facts, const struct gm_weights *weights,
        uint32_t block, enum gm_bound bound)
{
	if (!gm_advise_counts(facts, block) || !gm_advise_step(facts, block) ||
	        !passes_through(gm_advise_phase(facts, block)))
		return false;
	switch (gm_advise_category(facts, block)) {
	case GM_CATEGORY_ACTIVATION:
	case GM_CATEGORY_TEMPORARY:
		break;
	case GM_CATEGORY_INPUT:
		return true;
	default:
		return false;
	}
	return !gm_weights_has(weights, facts, block) || bound == GM_BOUND_MOST;
}

/* Where accumulation splits a batch that is on the device as a whole, it is as large as before. */
static struct gm_error *scale(const struct gm_advise_facts *facts, uint32_t parts, bool inputs,
        enum gm_bound bound, struct gm_whatif *whatif)
{
	_cleanup_(gm_weights_deinit) struct gm_weights weights = {0};
	gm_try(gm_weights_init(&weights, facts));
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++)
		if (follows(facts, &weights, i, bound) &&
		        (inputs || gm_advise_category(facts, i) != GM_CATEGORY_INPUT))
			gm_whatif_resize(
			        whatif, i, gm_whatif_round((whatif->size[i] + parts - 1) / parts));
	return NULL;
}

struct gm_error *gm_measure_smaller_batch(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	return scale(facts, candidate->number, true, bound, whatif);
}

/*
 * The recorded step stands for its last part. The gradients of the parts before it are there from
 * its beginning on, and where backward makes a gradient there are two of it until they are added.
 */
struct gm_error *gm_measure_accumulate(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	if (gm_advise_next(facts, GM_CATEGORY_GRADIENT, 0) == GM_NO_BLOCK)
		return NULL; /* it does not train */
	gm_try(scale(facts, candidate->number, bound != GM_BOUND_LEAST, bound, whatif));
	gm_advise_each(facts, GM_CATEGORY_GRADIENT, i)
	{
		uint32_t step = gm_advise_step(facts, i);
		if (!step)
			continue;
		gm_whatif_again(whatif, i, facts->steps[step].first, whatif->begin[i]);
		gm_whatif_again(whatif, i, whatif->begin[i], whatif->begin[i] + 1);
	}
	return NULL;
}
