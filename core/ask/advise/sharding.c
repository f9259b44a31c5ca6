/* Measures that share what each rank keeps among several: ZeRO. And the one that keeps it in the
 * host's memory, which needs the same on the device while it is in use. */
#include "ask/advise/measures.h"
#include "base/cleanup.h"

/* HOST: all of it is in the host's memory. */
enum { HOST = 0 };

static uint64_t share(uint64_t bytes, uint32_t ranks)
{
	return ranks == HOST ? 0 : gm_whatif_round((bytes + ranks - 1) / ranks);
}

/* Temporaries of the optimizer are those of the parameters that a rank updates. */
static void share_optimizer(
        const struct gm_advise_facts *facts, uint32_t ranks, struct gm_whatif *whatif)
{
	gm_advise_each(facts, GM_CATEGORY_OPTIMIZER_STATE, i)
	        gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && whatif->changes; i++)
		if (gm_advise_is_optimizer_temporary(facts, i))
			gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
}

/*
 * A gradient is there as a whole from where backward makes it until it is reduced: right then, or
 * (the least) when the next one is there too.
 */
static void share_gradients(const struct gm_advise_facts *facts, uint32_t ranks,
        enum gm_bound bound, struct gm_whatif *whatif)
{
	uint32_t before = GM_NO_BLOCK;
	uint64_t before_size = 0;
	gm_advise_each(facts, GM_CATEGORY_GRADIENT, i)
	{
		uint64_t size = whatif->size[i], own = share(size, ranks);
		uint32_t begin = whatif->begin[i];
		if (size <= own)
			continue;
		gm_whatif_resize(whatif, i, own);
		gm_whatif_add(whatif, begin, begin + 1, size);
		if (bound == GM_BOUND_LEAST && before != GM_NO_BLOCK)
			gm_whatif_add(whatif, whatif->begin[before] + 1, begin + 1, before_size);
		before = i;
		before_size = size;
	}
}

/* Parameters are there as a whole where they are used: in forward and backward the largest one, and
 * in the least the largest one's neighbour too, which is fetched ahead. */
static void share_parameters(const struct gm_advise_facts *facts, uint32_t ranks,
        enum gm_bound bound, struct gm_whatif *whatif)
{
	uint64_t largest = 0;
	gm_advise_each(facts, GM_CATEGORY_PARAMETER, i)
	{
		largest = whatif->size[i] > largest ? whatif->size[i] : largest;
		gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
	}
	uint64_t whole = bound == GM_BOUND_MOST    ? largest
	                 : bound == GM_BOUND_LEAST ? 4 * largest
	                                           : 2 * largest;
	for (uint32_t step = 1; step <= facts->step_count; step++) {
		const struct gm_step_bounds *bounds = &facts->steps[step];
		if (bounds->forward == GM_NO_EVENT)
			continue;
		uint32_t end = bounds->backward == GM_NO_EVENT ? bounds->forward_end
		                                               : bounds->backward_end;
		gm_whatif_add(whatif, bounds->forward, end, whole);
	}
}

struct gm_error *gm_measure_zero(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	share_optimizer(facts, candidate->number, whatif);
	if (candidate->measure != GM_MEASURE_ZERO1)
		share_gradients(facts, candidate->number, bound, whatif);
	if (candidate->measure == GM_MEASURE_ZERO3)
		share_parameters(facts, candidate->number, bound, whatif);
	return NULL;
}

struct gm_error *gm_measure_offload_parameters(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	share_optimizer(facts, HOST, whatif);
	share_gradients(facts, HOST, bound, whatif);
	share_parameters(facts, HOST, bound, whatif);
	return NULL;
}
