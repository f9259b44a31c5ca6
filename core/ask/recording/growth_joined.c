/* Lines whose one block grows: history = torch.cat([history, x]). */
#include <stdlib.h>

#include "ask/recording/growth.h"

enum {
	TAILS_MAX = 8,         /* blocks of one line that may grow side by side */
	BETWEEN_MAX = 1 << 20, /* blocks that are looked at for what was joined */
};

/* A block that others may be joined to, and how it came about. */
struct tail {
	uint32_t block, links; /* how often it was joined to */
	uint32_t first, last;  /* iterations of the links */
	uint64_t size;         /* before the first */
	uint32_t oldest;
};

static int compare_shares(const void *a, const void *b)
{
	const struct gm_share *left = a, *right = b;
	if (left->site != right->site)
		return left->site < right->site ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

/* Gradients and optimizer state: nobody joins these to what they keep. */
static bool is_of_training(enum gm_phase phase)
{
	return phase == GM_PHASE_BACKWARD || phase == GM_PHASE_OPTIMIZER;
}

/* Is `block` the one of before and one more, which was made in between? */
static bool joins(const struct gm_model *model, uint32_t before, uint32_t block)
{
	const struct gm_block *old = gm_model_block(model, before),
	                      *new = gm_model_block(model, block);
	if (!old->requested || new->requested <= old->requested || gm_block_end(old) < new->alloc)
		return false;
	uint64_t more = new->requested - old->requested;
	uint32_t left = BETWEEN_MAX;
	for (uint32_t i = block; i-- > before + 1 && left > 0; left--) {
		const struct gm_block *one = gm_model_block(model, i);
		if (one->requested == more && one->device == new->device &&
		        one->alloc != GM_NO_EVENT &&gm_block_end(one) > new->alloc &&
		        !is_of_training(gm_model_phase(model, one->alloc)))
			return true;
	}
	return false;
}

/* Goes on with one of the tails, or begins another. */
static void put(const struct gm_model *model, struct tail *tails, size_t *count,
        const struct gm_share *share)
{
	for (size_t i = *count; i-- > 0;) {
		struct tail *tail = &tails[i];
		if (!joins(model, tail->block, share->block))
			continue;
		tail->links += tail->last != share->iteration;
		tail->first = tail->first ? tail->first : share->iteration;
		tail->last = share->iteration;
		tail->block = share->block;
		return;
	}
	const struct tail fresh = {.block = share->block,
	        .oldest = share->block,
	        .size = gm_model_block(model, share->block)->size};
	if (*count == TAILS_MAX) {
		for (size_t i = 1; i < TAILS_MAX; i++)
			tails[i - 1] = tails[i];
		--*count;
	}
	tails[(*count)++] = fresh;
}

/* The blocks that outlived the iteration that made them. */
static bool collect(struct gm_growth *growth, const struct gm_level *level,
        struct gm_share **ret_shares, size_t *ret_count)
{
	const struct gm_model *model = growth->model;
	GM_ARRAY(struct gm_share) shares = {0};
	bool fits = true;
	for (size_t i = 0; fits && i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		uint32_t end = gm_block_end(block), stack, native;
		if (block->device != growth->device || block->alloc == GM_NO_EVENT)
			continue;
		uint32_t iteration = gm_level_iteration(level, model, block->alloc);
		if (!iteration || iteration < level->from ||
		        (end <= level->end && gm_level_iteration(level, model, end) == iteration))
			continue;
		struct gm_share share = {.iteration = iteration, .block = (uint32_t)i};
		gm_model_stacks(model, block->alloc, &stack, &native);
		share.stack = stack;
		fits = gm_growth_site(growth, stack, &share.site) && gm_array_push(&shares, share);
	}
	if (!fits)
		gm_array_deinit(&shares);
	*ret_shares = shares.items;
	*ret_count = fits ? shares.count : 0;
	return fits;
}

struct gm_error *gm_growth_find_joined(struct gm_growth *growth, const struct gm_level *level,
        uint32_t level_index, struct gm_leaks *leaks)
{
	struct gm_share *shares;
	size_t count;
	struct gm_error *error = NULL;
	if (!collect(growth, level, &shares, &count))
		return &gm_error_no_memory;
	if (count)
		qsort(shares, count, sizeof(*shares), compare_shares);
	for (size_t i = 0, next; i < count && !error; i = next) {
		struct tail tails[TAILS_MAX];
		size_t tail_count = 0;
		for (next = i; next < count && shares[next].site == shares[i].site; next++)
			put(growth->model, tails, &tail_count, &shares[next]);
		for (size_t j = 0; j < tail_count && !error; j++) {
			const struct gm_block *last = gm_model_block(growth->model, tails[j].block);
			if (!gm_level_spreads(
			            level, tails[j].links, tails[j].first, tails[j].last) ||
			        gm_block_end(last) < level->end)
				continue;
			const struct gm_leak leak = {.site = shares[i].site,
			        .stack = shares[i].stack,
			        .block = tails[j].block,
			        .oldest = tails[j].block,
			        .steps = tails[j].links,
			        .bytes = last->size - tails[j].size,
			        .blocks = 1,
			        .joined = true,
			        .level = level_index};
			error = gm_leaks_add(leaks, &leak);
		}
	}
	free(shares);
	return error;
}
