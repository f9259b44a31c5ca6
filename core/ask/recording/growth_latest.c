/*
 * What the latest iteration of a loop has not replaced yet: `x` of `for x in batches`, of which
 * only the last one is still there when the loop has ended.
 *
 * Blocks are of one *kind* if they were allocated from the same stack and are of the same size. If
 * each earlier iteration left N blocks of a kind (mostly 0), released others, and the latest has
 * left more than N, the next iteration would release those beyond N: they do not count. If the
 * sizes differ with each iteration, this is said of all blocks of a stack, with N = 0.
 *
 * A window that moves, as a deque of the last few, is the same over the last quarter of the
 * iterations, with N = 0.
 */
#include "ask/recording/growth_latest.h"

#include <stdlib.h>

struct kind {
	uint32_t stack;
	uint64_t bytes;   /* 0: of any size */
	uint64_t made;    /* by the earlier iterations */
	uint64_t left;    /* of these, still there */
	uint64_t most;    /* the most that one of them left */
	uint64_t latest;  /* left by the latest iterations */
	uint64_t current; /* while they are counted: left by `iteration` */
	uint32_t iteration;
};
struct kinds {
	GM_ARRAY(struct kind) list; /* by stack and bytes */
};

static int compare_kinds(const void *a, const void *b)
{
	const struct kind *left = a, *right = b;
	if (left->stack != right->stack)
		return left->stack < right->stack ? -1 : 1;
	return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

static int compare_blocks(const void *a, const void *b)
{
	const struct gm_share *left = a, *right = b;
	return left->block < right->block ? -1 : left->block > right->block;
}

static struct kind *find(const struct kinds *kinds, uint32_t stack, uint64_t bytes)
{
	const struct kind wanted = {.stack = stack, .bytes = bytes};
	if (!kinds->list.count)
		return NULL;
	return bsearch(
	        &wanted, kinds->list.items, kinds->list.count, sizeof(wanted), compare_kinds);
}

/* The kinds of which the iterations from `latest` on left something. */
static bool find_kinds(
        struct kinds *kinds, const struct gm_share *shares, size_t count, uint32_t latest)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const struct kind by_size = {.stack = shares[i].stack, .bytes = shares[i].bytes},
		                  any = {.stack = shares[i].stack};
		if (shares[i].iteration >= latest && (!gm_array_push(&kinds->list, by_size) ||
		                                             !gm_array_push(&kinds->list, any)))
			return false;
	}
	struct kind *list = kinds->list.items;
	if (kinds->list.count)
		qsort(list, kinds->list.count, sizeof(*list), compare_kinds);
	for (size_t i = 0; i < kinds->list.count; i++)
		if (!kept || compare_kinds(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	kinds->list.count = kept;
	return true;
}

/* A block that an iteration left; they come in the order of the iterations. */
static void count_left(struct kind *kind, uint32_t iteration, uint32_t latest)
{
	if (!kind)
		return;
	if (iteration >= latest) {
		kind->latest++;
		return;
	}
	if (kind->iteration != iteration)
		kind->current = 0;
	kind->iteration = iteration;
	kind->left++;
	if (++kind->current > kind->most)
		kind->most = kind->current;
}

/* What the iterations left; those from `latest` on are the latest. */
static void count_shares(
        const struct kinds *kinds, const struct gm_share *shares, size_t count, uint32_t latest)
{
	for (size_t i = 0; i < count; i++) {
		count_left(
		        find(kinds, shares[i].stack, shares[i].bytes), shares[i].iteration, latest);
		count_left(find(kinds, shares[i].stack, 0), shares[i].iteration, latest);
	}
}

/* In the iterations before `latest`. */
static void count_made(const struct gm_growth *growth, const struct gm_level *level,
        const struct kinds *kinds, uint32_t latest)
{
	const struct gm_model *model = growth->model;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		uint32_t stack, native;
		if (block->device != growth->device || block->alloc == GM_NO_EVENT)
			continue;
		uint32_t iteration = gm_level_iteration(level, model, block->alloc);
		if (iteration < level->from || iteration >= latest)
			continue;
		gm_model_stacks(model, block->alloc, &stack, &native);
		struct kind *by_size = find(kinds, stack, block->size),
		            *any = find(kinds, stack, 0);
		if (by_size)
			by_size->made++;
		if (any)
			any->made++;
	}
}

/* How many of the latest iteration's blocks do not count. */
static uint64_t surplus(const struct kind *kind, uint32_t earlier)
{
	bool alike = kind->left == kind->most * earlier, released = kind->made > kind->left;
	return alike && released && kind->latest > kind->most ? kind->latest - kind->most : 0;
}

bool gm_growth_leave_out_latest(struct gm_growth *growth, const struct gm_level *level,
        struct gm_share *shares, size_t *count)
{
	struct kinds kinds = {0};
	uint32_t earlier = level->to - level->from;
	size_t kept = *count;
	if (*count)
		qsort(shares, *count, sizeof(*shares), compare_blocks);
	if (!find_kinds(&kinds, shares, *count, level->to)) {
		gm_array_deinit(&kinds.list);
		return false;
	}
	count_shares(&kinds, shares, *count, level->to);
	count_made(growth, level, &kinds, level->to);
	for (size_t i = 0; i < kinds.list.count; i++)
		kinds.list.items[i].current = surplus(&kinds.list.items[i], earlier);
	/* the last ones are those that would be replaced: from the end on */
	for (size_t i = *count; i-- > 0;) {
		struct kind *by_size = find(&kinds, shares[i].stack, shares[i].bytes),
		            *any = find(&kinds, shares[i].stack, 0);
		bool left_out = any && !any->left && any->current;
		if (shares[i].iteration == level->to && by_size && by_size->current) {
			by_size->current--;
			left_out = true;
		}
		if (shares[i].iteration != level->to || !left_out)
			shares[--kept] = shares[i];
	}
	for (size_t i = kept; i < *count; i++)
		shares[i - kept] = shares[i];
	*count -= kept;
	gm_array_deinit(&kinds.list);
	return true;
}

/* Did the earlier iterations allocate such blocks, and release all? */
static bool moves(const struct kind *kind)
{
	return kind && kind->made && !kind->left;
}

bool gm_growth_leave_out_windows(struct gm_growth *growth, const struct gm_level *level,
        struct gm_share *shares, size_t *count)
{
	struct kinds kinds = {0};
	uint32_t latest = level->to + 1 - (level->to + 1 - level->from) / 4;
	size_t kept = 0;
	if (!find_kinds(&kinds, shares, *count, latest)) {
		gm_array_deinit(&kinds.list);
		return false;
	}
	count_shares(&kinds, shares, *count, latest);
	if (kinds.list.count)
		count_made(growth, level, &kinds, latest);
	for (size_t i = 0; i < *count; i++)
		if (!moves(find(&kinds, shares[i].stack, shares[i].bytes)) &&
		        !moves(find(&kinds, shares[i].stack, 0)))
			shares[kept++] = shares[i];
	*count = kept;
	gm_array_deinit(&kinds.list);
	return true;
}
