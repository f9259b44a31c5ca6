/* Lines whose single block grows: history = torch.cat([history, x]). */
#include "ask/recording/growth_joined.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/growth.h"
#include "ask/recording/operator.h"
#include "ask/recording/leak.h"

enum {
	TAILS_MAX = 8,         /* blocks of one line that may grow at the same time */
	BETWEEN_MAX = 1 << 20, /* blocks that are examined for their inputs */
};

/* A block that may be the input of others, and its origin. */
struct tail {
	uint32_t block, links; /* how often something was concatenated to it */
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

/* Gradients and optimizer state: these are not concatenated to what a program collects. */
static bool is_of_training(enum gm_phase phase)
{
	return phase == GM_PHASE_BACKWARD || phase == GM_PHASE_OPTIMIZER;
}

/* The operation of the operator that created a block, if the native stack shows it. */
enum kind_of_operator { UNKNOWN, CONCATENATES, ALLOCATES, DOES_NOT_JOIN };

static enum kind_of_operator operator_kind(const struct gm_model *model, uint32_t native)
{
	static const char *const concatenating[] = {"cat", "concat", "concatenate", "stack",
	        "hstack", "vstack", "dstack", "row_stack", "column_stack", "pad",
	        "constant_pad_nd"};
	/* a program may fill the block that it has created, from the old and the new one */
	static const char *const making[] = {
	        "empty", "new_empty", "empty_strided", "zeros", "new_zeros", "resize_"};
	char name[GM_OPERATOR_MAX];
	if (!native || !gm_operator_of(gm_model_log(model), native, name))
		return UNKNOWN;
	for (size_t i = 0; i < sizeof(concatenating) / sizeof(concatenating[0]); i++)
		if (strcmp(name, concatenating[i]) == 0)
			return CONCATENATES;
	for (size_t i = 0; i < sizeof(making) / sizeof(making[0]); i++)
		if (strcmp(name, making[i]) == 0)
			return ALLOCATES;
	return DOES_NOT_JOIN;
}

/* Do two stacks differ in more than their innermost frame? */
static bool is_called_elsewhere(const struct gm_model *model, uint32_t a, uint32_t b)
{
	size_t counts[2];
	const uint32_t *left = gm_log_python_stack(gm_model_log(model), a, &counts[0]),
	               *right = gm_log_python_stack(gm_model_log(model), b, &counts[1]);
	return a != b && (counts[0] != counts[1] || counts[0] == 0 ||
	                         memcmp(left + 1, right + 1, (counts[0] - 1) * sizeof(*left)) != 0);
}

/* Blocks that one line creates in two calls of its function are of the same kind, but not parts of
 * each other. */
static bool is_of_another_call(
        struct gm_growth *growth, const struct gm_share *share, uint32_t event)
{
	uint32_t stack, native;
	uint64_t site;
	gm_model_stacks(growth->model, event, &stack, &native);
	return gm_growth_site(growth, stack, &site) && site == share->site &&
	       is_called_elsewhere(growth->model, stack, share->stack);
}

/* Was the previous block released where the new one was created? Then the new one is the new value
 * of the same variable. */
static bool is_replaced(struct gm_growth *growth, const struct gm_share *share, uint32_t before)
{
	uint32_t stack, native, end = gm_model_block(growth->model, before)->free_requested;
	uint64_t site;
	if (end == GM_NO_EVENT)
		return false;
	gm_model_stacks(growth->model, end, &stack, &native);
	return gm_growth_site(growth, stack, &site) && site == share->site;
}

/* torch.cat() of two types creates a block of the wider type: `size` bytes of it came from this
 * many bytes of the other. */
static bool is_converted(uint64_t from, uint64_t size)
{
	return from == size / 2 || from == size / 4 || from == size * 2 || from == size * 4;
}

/* Is the share's block the previous one plus another that was created in between? */
static bool joins(struct gm_growth *growth, uint32_t before, const struct gm_share *share)
{
	const struct gm_model *model = growth->model;
	const struct gm_block *old = gm_model_block(model, before),
	                      *new = gm_model_block(model, share->block);
	if (!old->requested || new->requested <= old->requested || gm_block_end(old) < new->alloc)
		return false;
	uint32_t stack, native;
	gm_model_stacks(model, new->alloc, &stack, &native);
	enum kind_of_operator kind = operator_kind(model, native);
	if (kind == DOES_NOT_JOIN)
		return false;
	bool converts = kind == CONCATENATES && is_replaced(growth, share, before);
	uint64_t more = new->requested - old->requested;
	uint32_t left = BETWEEN_MAX;
	for (uint32_t i = share->block; i-- > before + 1 && left > 0; left--) {
		const struct gm_block *one = gm_model_block(model, i);
		bool fits =
		        one->requested == more || (converts && is_converted(one->requested, more));
		if (fits && one->device == new->device &&
		        one->alloc != GM_NO_EVENT &&gm_block_end(one) > new->alloc &&
		        !is_of_training(gm_model_phase(model, one->alloc)) &&
		        !is_of_another_call(growth, share, one->alloc))
			return true;
	}
	return false;
}

/* Continues one of the chains, or begins another. */
static void put(
        struct gm_growth *growth, struct tail *tails, size_t *count, const struct gm_share *share)
{
	for (size_t i = *count; i-- > 0;) {
		struct tail *tail = &tails[i];
		if (!joins(growth, tail->block, share))
			continue;
		tail->links += tail->last != share->iteration;
		tail->first = tail->first ? tail->first : share->iteration;
		tail->last = share->iteration;
		tail->block = share->block;
		return;
	}
	const struct tail fresh = {.block = share->block,
	        .oldest = share->block,
	        .size = gm_model_block(growth->model, share->block)->size};
	if (*count == TAILS_MAX) {
		for (size_t i = 1; i < TAILS_MAX; i++)
			tails[i - 1] = tails[i];
		--*count;
	}
	tails[(*count)++] = fresh;
}

/* The blocks that were alive after the iteration that created them. */
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
			put(growth, tails, &tail_count, &shares[next]);
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
