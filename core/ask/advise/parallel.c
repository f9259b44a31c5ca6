/*
 * Measures that put parts of each layer, or some of the layers, on each of several devices.
 *
 * Tensor parallelism divides the matrices, their gradients and their optimizer state. It divides
 * what is computed between a matrix that is split by columns and one that is split by rows
 * (Megatron-LM); the results that all ranks have as a whole are those that go from block to block:
 * likely all of the shape that most of them have. The most divides these too (sequence
 * parallelism), the least none of the activations.
 *
 * Pipeline parallelism with N stages and N micro-batches (GPipe, or the first stage of 1F1B): a
 * stage has a part of the layers, keeps the activations of all micro-batches of these, and works on
 * one at a time. The gradients are there from the first micro-batch on, and each once more where
 * another one's is added. Stages are not alike: the least has the largest parameter in addition to
 * an even share, with its gradient and state; the most is the last stage of 1F1B, which keeps one
 * micro-batch.
 */
#include "ask/advise/measures.h"
#include "base/cleanup.h"

static uint64_t share(uint64_t bytes, uint32_t parts)
{
	return gm_whatif_round((bytes + parts - 1) / parts);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool is_matrix(const struct gm_advise_facts *facts, uint32_t block)
{
	struct gm_log_tensor tensor;
	return gm_advise_tensor(facts, block, &tensor) && tensor.dimensions > 1;
}

static void share_matrices(const struct gm_advise_facts *facts, enum gm_category category,
        uint32_t ranks, struct gm_whatif *whatif)
{
	gm_advise_each(facts, category, i)
	{
		if (is_matrix(facts, i))
			gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
	}
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

/* The shape that most of the blocks have that wait for backward; false: no memory. */
static bool find_commonest(const struct gm_advise_facts *facts, uint64_t *ret_shape)
{
	GM_ARRAY(uint64_t) shapes = {0};
	struct gm_log_tensor tensor;
	bool good = true;
	gm_advise_each(facts, GM_CATEGORY_ACTIVATION, i)
	{
		if (gm_advise_in_forward(facts, i) && gm_advise_waits_for_backward(facts, i) &&
		        gm_advise_tensor(facts, i, &tensor))
			good = good && gm_array_push(&shapes, gm_advise_shape(&tensor, false));
	}
	if (shapes.count)
		qsort(shapes.items, shapes.count, sizeof(uint64_t), by_number);
	size_t most = 0;
	*ret_shape = 0;
	for (size_t i = 0, next; i < shapes.count; i = next) {
		for (next = i; next < shapes.count && shapes.items[next] == shapes.items[i];)
			next++;
		if (next - i > most) {
			most = next - i;
			*ret_shape = shapes.items[i];
		}
	}
	gm_array_deinit(&shapes);
	return good;
}

/* Is it computed of a batch, and may it be divided? */
static bool is_computed(const struct gm_advise_facts *facts, uint32_t block)
{
	enum gm_phase phase = gm_advise_phase(facts, block);
	enum gm_category category = gm_advise_category(facts, block);
	return gm_advise_counts(facts, block) && gm_advise_step(facts, block) &&
	       (category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_TEMPORARY) &&
	       (phase == GM_PHASE_FORWARD || phase == GM_PHASE_BACKWARD ||
	               phase == GM_PHASE_RECOMPUTE);
}

struct gm_error *gm_measure_tensor_parallel(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	uint32_t ranks = candidate->number;
	uint64_t commonest;
	share_matrices(facts, GM_CATEGORY_PARAMETER, ranks, whatif);
	if (!whatif->changes)
		return NULL;
	share_matrices(facts, GM_CATEGORY_GRADIENT, ranks, whatif);
	share_matrices(facts, GM_CATEGORY_OPTIMIZER_STATE, ranks, whatif);
	if (!find_commonest(facts, &commonest))
		return &gm_error_no_memory;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_log_tensor tensor;
		if (gm_advise_is_optimizer_temporary(facts, i))
			gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
		if (bound == GM_BOUND_LEAST || !is_computed(facts, i) ||
		        !gm_advise_tensor(facts, i, &tensor))
			continue;
		if (bound == GM_BOUND_MOST || gm_advise_shape(&tensor, false) != commonest)
			gm_whatif_resize(whatif, i, share(whatif->size[i], ranks));
	}
	return NULL;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static void share_weights(const struct gm_advise_facts *facts, uint32_t stages, enum gm_bound bound,
        struct gm_whatif *whatif)
{
	static const enum gm_category categories[] = {
	        GM_CATEGORY_PARAMETER, GM_CATEGORY_GRADIENT, GM_CATEGORY_OPTIMIZER_STATE};
	uint64_t largest = gm_measure_largest_parameter(facts, whatif);
	for (size_t c = 0; c < sizeof(categories) / sizeof(categories[0]); c++)
		gm_advise_each(facts, categories[c], i)
		{
			/* all that is as large as the largest parameter: its own gradient, … */
			bool whole = bound == GM_BOUND_LEAST && whatif->size[i] == largest;
			if (!whole)
				gm_whatif_resize(whatif, i, share(whatif->size[i], stages));
		}
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++)
		if (gm_advise_is_optimizer_temporary(facts, i))
			gm_whatif_resize(whatif, i, share(whatif->size[i], stages));
}

struct gm_error *gm_measure_pipeline_parallel(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	uint32_t stages = candidate->number;
	if (gm_advise_next(facts, GM_CATEGORY_GRADIENT, 0) == GM_NO_BLOCK)
		return NULL; /* it does not train */
	share_weights(facts, stages, bound, whatif);
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		uint32_t parts =
		        bound == GM_BOUND_MOST && gm_advise_counts(facts, i) &&
		                        gm_advise_category(facts, i) == GM_CATEGORY_ACTIVATION
		                ? stages * stages
		                : stages;
		if (is_computed(facts, i))
			gm_whatif_resize(whatif, i, share(whatif->size[i], parts));
	}
	gm_advise_each(facts, GM_CATEGORY_GRADIENT, i)
	{
		uint32_t step = gm_advise_step(facts, i);
		if (!step || facts->steps[step].backward == GM_NO_EVENT)
			continue;
		gm_whatif_again(whatif, i, facts->steps[step].backward, whatif->begin[i]);
		gm_whatif_again(whatif, i, whatif->begin[i], whatif->begin[i] + 1);
	}
	return NULL;
}
