/* Measures that release gradients earlier. */
#include "ask/advise/measures.h"
#include "base/cleanup.h"
#include "base/search.h"

/* Where the gradients of a step are not needed any more; GM_NO_EVENT: it made none. An update that
 * allocates nothing has no events: then it is right behind backward. */
static uint32_t updated(const struct gm_advise_facts *facts, uint32_t step)
{
	const struct gm_step_bounds *bounds = &facts->steps[step];
	if (bounds->backward == GM_NO_EVENT)
		return GM_NO_EVENT;
	return bounds->optimizer_end > bounds->backward_end ? bounds->optimizer_end
	                                                    : bounds->backward_end;
}

static bool is_gradient(const struct gm_advise_facts *facts, uint32_t block)
{
	return gm_advise_counts(facts, block) &&
	       gm_advise_category(facts, block) == GM_CATEGORY_GRADIENT &&
	       gm_advise_step(facts, block);
}

/* A gradient that the step after its own releases goes when its own has updated the weights. */
struct gm_error *gm_measure_zero_grad(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		if (!is_gradient(facts, i))
			continue;
		uint32_t step = gm_advise_step(facts, i), end = updated(facts, step);
		if (end != GM_NO_EVENT && gm_advise_last_step(facts, i) == step + 1)
			gm_whatif_end(whatif, i, end);
	}
	return NULL;
}

/*
 * zero_grad(set_to_none=False) keeps the blocks of the gradients for good. In each further step
 * backward makes a tensor for each, adds it to the gradient and releases it. With set_to_none that
 * tensor becomes the gradient: the kept block is not there from the optimizer's step up to where
 * the tensor was released, and what lives from there on stands for it.
 */
struct kept {
	uint64_t size;
	uint32_t block;
	uint32_t step; /* in which a tensor was found for it last */
	/* of the first of its size: the next one to be given a tensor, and in which step */
	uint32_t next, next_step;
};
struct all_kept {
	GM_ARRAY(struct kept) list; /* by size, then in their order */
};

static int by_size(const void *a, const void *b)
{
	const struct kept *left = a, *right = b;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

static bool is_kept(const struct gm_advise_facts *facts, uint32_t block)
{
	if (!is_gradient(facts, block))
		return false;
	uint32_t step = gm_advise_step(facts, block), last = gm_advise_last_step(facts, block);
	return last ? last > step + 1 : step < facts->step_count;
}

/* The next gradient of that size that has no tensor in this step; NULL: all have. */
static struct kept *next_kept(struct all_kept *kept, uint64_t size, uint32_t step)
{
	struct kept *items = kept->list.items;
	size_t first = gm_partition_point(kept->list.count, middle, items[middle].size < size);
	if (first == kept->list.count || items[first].size != size)
		return NULL;
	if (items[first].next_step != step) {
		items[first].next = (uint32_t)first;
		items[first].next_step = step;
	}
	size_t at = items[first].next;
	if (at == kept->list.count || items[at].size != size)
		return NULL;
	items[first].next++;
	return &items[at];
}

static void leave_out(const struct gm_advise_facts *facts, const struct kept *kept, uint32_t step,
        uint32_t until, struct gm_whatif *whatif)
{
	uint32_t from = updated(facts, step - 1);
	if (from != GM_NO_EVENT && gm_advise_step(facts, kept->block) < step)
		gm_whatif_absent(whatif, kept->block, from, until);
}

/* Those that no tensor was found for are there from the beginning of backward on. */
static void close_step(const struct gm_advise_facts *facts, const struct all_kept *kept,
        uint32_t step, struct gm_whatif *whatif)
{
	for (size_t i = 0; i < kept->list.count && step > 1; i++)
		if (kept->list.items[i].step < step && facts->steps[step].backward != GM_NO_EVENT)
			leave_out(facts, &kept->list.items[i], step, facts->steps[step].backward,
			        whatif);
}

static void match(
        const struct gm_advise_facts *facts, struct all_kept *kept, struct gm_whatif *whatif)
{
	uint32_t under_way = 1;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model); i++) {
		if (!gm_advise_counts(facts, i) || gm_advise_phase(facts, i) != GM_PHASE_BACKWARD)
			continue;
		uint32_t step = gm_advise_step(facts, i);
		for (; under_way < step; under_way++)
			close_step(facts, kept, under_way, whatif);
		struct kept *of =
		        step < 2 || is_kept(facts, i)
		                ? NULL
		                : next_kept(kept, gm_model_block(facts->model, i)->size, step);
		if (!of)
			continue;
		of->step = step;
		leave_out(facts, of, step, whatif->end[i], whatif);
	}
	for (; under_way <= facts->step_count; under_way++)
		close_step(facts, kept, under_way, whatif);
}

struct gm_error *gm_measure_set_to_none(const struct gm_advise_facts *facts,
        const struct gm_candidate *candidate, enum gm_bound bound, struct gm_whatif *whatif)
{
	struct all_kept kept = {0};
	bool good = true;
	for (uint32_t i = 0; i < gm_model_block_count(facts->model) && good; i++)
		if (is_kept(facts, i))
			good = gm_array_push(&kept.list,
			        ((struct kept){.size = gm_model_block(facts->model, i)->size,
			                .block = i}));
	if (good && kept.list.count) {
		qsort(kept.list.items, kept.list.count, sizeof(*kept.list.items), by_size);
		match(facts, &kept, whatif);
	}
	gm_array_deinit(&kept.list);
	return good ? NULL : &gm_error_no_memory;
}
