/*
 * Offload of activations: what an operator saves for backward is copied to the host's memory
 * (torch.autograd.graph.save_on_cpu), and is back on the device where backward reads it.
 *
 * In forward the block stays as long as the program uses it. A recording has no uses: it is likely
 * that the next operator reads it and that it is released when the one behind that makes its own
 * result. Inputs of residual connections stay for longer: the least keeps each block for eight
 * results. In backward the block is there again from the last release of a saved block before its
 * own. PyTorch's hooks take what is saved of weights too, and copy it back: the largest one.
 */
#include "ask/advise/measures.h"
#include "base/cleanup.h"
#include "base/search.h"

enum { RESULTS_LIKELY = 2, RESULTS_LEAST = 8 };

struct numbers {
	GM_ARRAY(uint32_t) list;
};

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

/* Blocks that wait for backward, and where they are released, ascending. */
static bool find_saved(
        const struct gm_advise_facts *facts, struct numbers *saved, struct numbers *releases)
{
	bool good = true;
	gm_advise_each(facts, GM_CATEGORY_ACTIVATION, i)
	{
		if (!gm_advise_in_forward(facts, i) || !gm_advise_waits_for_backward(facts, i))
			continue;
		good = good && gm_array_push(&saved->list, i) &&
		       gm_array_push(
		               &releases->list, gm_block_end(gm_model_block(facts->model, i)));
	}
	if (releases->list.count)
		qsort(releases->list.items, releases->list.count, sizeof(uint32_t), by_number);
	return good;
}

/* The event at which a saved block is released in forward. */
static uint32_t released(const struct gm_advise_facts *facts, const struct numbers *saved,
        size_t at, enum gm_bound bound, const struct gm_whatif *whatif)
{
	uint32_t step = gm_advise_step(facts, saved->list.items[at]);
	size_t next = at + (bound == GM_BOUND_MOST           ? 1
	                           : bound == GM_BOUND_LEAST ? RESULTS_LEAST
	                                                     : RESULTS_LIKELY);
	if (next >= saved->list.count || gm_advise_step(facts, saved->list.items[next]) != step)
		return facts->steps[step].backward;
	/* the most: when the next result has been made */
	return whatif->begin[saved->list.items[next]] + (bound == GM_BOUND_MOST ? 1 : 0);
}

/* From where on the block is on the device again: behind the last release before its own. */
static uint32_t needed_again(
        const struct gm_advise_facts *facts, const struct numbers *releases, uint32_t block)
{
	const uint32_t *ends = releases->list.items;
	uint32_t end = gm_block_end(gm_model_block(facts->model, block));
	uint32_t again = facts->steps[gm_advise_step(facts, block)].backward;
	size_t at = gm_partition_point(releases->list.count, middle, ends[middle] < end);
	return at && ends[at - 1] >= again ? ends[at - 1] + 1 : again;
}

static void add_weights(
        const struct gm_advise_facts *facts, enum gm_bound bound, struct gm_whatif *whatif)
{
	uint64_t largest = gm_measure_largest_parameter(facts, whatif);
	for (uint32_t step = 1; step <= facts->step_count && bound != GM_BOUND_MOST; step++)
		if (facts->steps[step].backward != GM_NO_EVENT)
			gm_whatif_add(whatif, facts->steps[step].backward,
			        facts->steps[step].backward_end, largest);
}

struct gm_error *gm_measure_offload_activations(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct numbers saved = {0}, releases = {0};
	bool good = find_saved(facts, &saved, &releases);
	for (size_t i = 0; i < saved.list.count && good; i++) {
		uint32_t block = saved.list.items[i], end = whatif->end[block];
		uint32_t until = released(facts, &saved, i, bound, whatif);
		uint32_t again = needed_again(facts, &releases, block);
		if (until >= again || again > end)
			continue;
		gm_whatif_end(whatif, block, until);
		gm_whatif_again(whatif, block, again, end);
	}
	if (whatif->changes)
		add_weights(facts, bound, whatif);
	gm_array_deinit(&saved.list);
	gm_array_deinit(&releases.list);
	return good ? NULL : &gm_error_no_memory;
}
