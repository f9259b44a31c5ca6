/* Measures against the tensors that grow with a product: logits (tokens times words) and the scores
 * of attention (queries times keys). */
#include "ask/advise/measures.h"

enum { FLOAT_BYTES = 4, SIDE_LEAST = 32 };

static bool in_model(const struct gm_advise_facts *facts, uint32_t block)
{
	enum gm_phase phase = gm_advise_phase(facts, block);
	enum gm_category category = gm_advise_category(facts, block);
	return gm_advise_counts(facts, block) && gm_advise_step(facts, block) &&
	       (phase == GM_PHASE_FORWARD || phase == GM_PHASE_BACKWARD ||
	               phase == GM_PHASE_RECOMPUTE || phase == GM_PHASE_OTHER) &&
	       (category == GM_CATEGORY_ACTIVATION || category == GM_CATEGORY_TEMPORARY ||
	               category == GM_CATEGORY_UNKNOWN);
}

/* ---- the loss ---- */

/* The elements of the largest tensor that a loss over classes makes in forward, which are those of
 * the logits; 0: there is no such loss. */
static uint64_t find_logits(const struct gm_advise_facts *facts)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_log_tensor tensor;
		if (!in_model(facts, i) || gm_advise_phase(facts, i) != GM_PHASE_FORWARD ||
		        !gm_advise_tensor(facts, i, &tensor))
			continue;
		uint64_t elements = gm_advise_elements(&tensor);
		if (elements > most && tensor.dimensions > 1 &&
		        gm_advise_sign(facts, i) & GM_SIGN_LOSS)
			most = elements;
	}
	return most;
}

/* The gradient of the output layer is the first of backward: there are two of it while the chunks
 * go on, the sum and the next chunk's. */
static void keep_head(const struct gm_advise_facts *facts, uint32_t block, uint32_t *last_step,
        struct gm_whatif *whatif)
{
	uint32_t step = gm_advise_step(facts, block);
	if (step == *last_step || gm_advise_category(facts, block) != GM_CATEGORY_GRADIENT ||
	        facts->steps[step].backward == GM_NO_EVENT)
		return;
	*last_step = step;
	gm_whatif_again(whatif, block, facts->steps[step].backward, whatif->begin[block] + 1);
}

struct gm_error *gm_measure_chunked_loss(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	uint64_t elements = find_logits(facts);
	uint32_t last_step = 0, chunks = candidate->number;
	if (!elements)
		return NULL;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		struct gm_log_tensor tensor;
		if (in_model(facts, i) && gm_advise_tensor(facts, i, &tensor) &&
		        gm_advise_elements(&tensor) == elements)
			gm_whatif_resize(whatif, i,
			        gm_whatif_round((whatif->size[i] + chunks - 1) / chunks));
		if (gm_advise_counts(facts, i) && gm_advise_step(facts, i) &&
		        bound != GM_BOUND_MOST)
			keep_head(facts, i, &last_step, whatif);
	}
	return NULL;
}

/* ---- attention ---- */

/* Is it as large as scores are, queries times keys? */
static bool is_square(const struct gm_log_tensor *tensor)
{
	uint32_t last = tensor->dimensions - 1;
	return tensor->dimensions > 2 && tensor->sizes[last] >= SIDE_LEAST &&
	       tensor->sizes[last - 1] >= SIDE_LEAST;
}

struct scores {
	uint64_t elements;
	int64_t keys;
	uint32_t site; /* the function that calls the softmax: a code object */
};

static uint32_t code_of(const struct gm_advise_facts *facts, uint32_t block)
{
	struct gm_frame_place place = {0};
	gm_advise_site(facts, block, &place);
	return place.code;
}

/* What a softmax outside a loss makes of matrices of at least three dimensions. */
static bool is_softmax(
        const struct gm_advise_facts *facts, uint32_t block, struct scores *ret_scores)
{
	struct gm_log_tensor tensor;
	if (!in_model(facts, block) || gm_advise_phase(facts, block) != GM_PHASE_FORWARD ||
	        !gm_advise_tensor(facts, block, &tensor) || !is_square(&tensor) ||
	        !(gm_advise_sign(facts, block) & GM_SIGN_SOFTMAX))
		return false;
	*ret_scores = (struct scores){gm_advise_elements(&tensor),
	        tensor.sizes[tensor.dimensions - 1], code_of(facts, block)};
	return true;
}

struct all_scores {
	GM_ARRAY(struct scores) list;
};

static const struct scores *find_scores(const struct all_scores *all, uint64_t elements)
{
	for (size_t i = 0; i < all->list.count; i++)
		if (all->list.items[i].elements == elements)
			return &all->list.items[i];
	return NULL;
}

/* A copy of the queries, keys or values that a multiplication of the same function makes: another
 * kernel may do without it. */
static bool is_operand(
        const struct gm_advise_facts *facts, const struct all_scores *all, uint32_t block)
{
	const uint8_t both = GM_SIGN_MATMUL | GM_SIGN_COPIES;
	if (gm_advise_phase(facts, block) != GM_PHASE_FORWARD ||
	        (gm_advise_sign(facts, block) & both) != both)
		return false;
	uint32_t site = code_of(facts, block);
	for (size_t i = 0; i < all->list.count; i++)
		if (all->list.items[i].site == site)
			return true;
	return false;
}

enum { SCORES_MAX = 64 };

struct gm_error *gm_measure_attention(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct all_scores all = {0};
	bool good = true;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && good; i++) {
		struct scores scores;
		if (all.list.count < SCORES_MAX && is_softmax(facts, i, &scores) &&
		        !find_scores(&all, scores.elements))
			good = gm_array_push(&all.list, scores);
	}
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && good && all.list.count;
	        i++) {
		struct gm_log_tensor tensor;
		struct scores own;
		if (!in_model(facts, i) || !gm_advise_tensor(facts, i, &tensor))
			continue;
		const struct scores *scores =
		        is_square(&tensor) ? find_scores(&all, gm_advise_elements(&tensor)) : NULL;
		if (!scores) {
			if (bound == GM_BOUND_MOST && is_operand(facts, &all, i))
				gm_whatif_resize(whatif, i, 0);
			continue;
		}
		/* of each row of the scores one number is kept: the logarithm of its sum */
		uint64_t rows = scores->elements / (uint64_t)scores->keys * FLOAT_BYTES;
		gm_whatif_resize(whatif, i, is_softmax(facts, i, &own) ? gm_whatif_round(rows) : 0);
	}
	gm_array_deinit(&all.list);
	return good ? NULL : &gm_error_no_memory;
}
