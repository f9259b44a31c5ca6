/*
 * Growth that ends by itself, told from a leak by the recording alone.
 *
 * A buffer that is FULL: the number of the line's blocks that are alive at the end of an iteration
 * rose up to some iteration, and has stayed there since, although the line went on making blocks.
 * "Since" must be at least twice as long as the longest time between two rises before, and at least
 * three iterations in which the line made something. A buffer that is emptied and filled again is
 * none: the number may not fall below three quarters.
 *
 * A cache BY SHAPE: each block that is alive has another shape, and where a shape came again the
 * line made nothing. Which shape an iteration has, the other blocks tell: a dimension in which the
 * line's blocks differ (a length) occurs in theirs. A shape comes *again* if another one of these
 * came in between: of a tensor that is replaced by a larger one (a parameter, and what an optimizer
 * keeps of the old ones), the latest size is in all iterations until the next replacement, and the
 * earlier ones never return. A line that keeps something in a part p of the
 * iterations whatever their shapes would have made nothing in R such iterations by chance with the
 * probability (1 - p)^R: up to 5 % are accepted. A dimension that occurred before its block was
 * made is no sign, because it may be another size that is always there.
 *
 * Where no shape comes again (inputs that become longer with each step) the recording cannot tell a
 * cache by shape from a leak: the line stays a leak, and `follows_shapes` says so.
 */
#include "ask/recording/growth_bounded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/search.h"

enum { FULL_MIN = 3, RECURRENCES_MIN = 3 };
static const double CHANCE_MOST = 0.05;

/* What is known of a line: blocks that outlived the iteration that made them, also those that are
 * gone. */
struct line {
	struct gm_leak *leak;
	GM_ARRAY(uint32_t) blocks; /* in their order */
};

/* ---- full ------------------------------------------------------------------------------------ */

struct rise {
	int64_t most;
	uint32_t latest;  /* iteration of the latest rise */
	uint32_t longest; /* iterations between two rises */
};

/* For each iteration: how many blocks are alive at its end, and whether some were made. */
static void count_alive(struct gm_growth *growth, const struct gm_level *level,
        const struct line *line, int64_t *alive, bool *made)
{
	const struct gm_model *model = growth->model;
	for (size_t i = 0; i < line->blocks.count; i++) {
		const struct gm_block *block = gm_model_block(model, line->blocks.items[i]);
		uint32_t begin = gm_level_iteration(level, model, block->alloc),
		         end = gm_block_end(block);
		uint32_t last = end > level->end ? 0 : gm_level_iteration(level, model, end);
		if (last && last < level->from)
			continue;
		/* what was made before counts from the beginning on */
		alive[begin < level->from ? 0 : begin - level->from]++;
		if (begin >= level->from)
			made[begin - level->from] = true;
		/* it ends between iterations, or behind those that are examined */
		if (last && last <= level->to)
			alive[last - level->from]--;
	}
	for (uint32_t i = 1; i <= level->to - level->from; i++)
		alive[i] += alive[i - 1];
}

static void judge_full(
        const struct gm_level *level, const int64_t *alive, const bool *made, struct gm_leak *leak)
{
	struct rise rise = {0, level->from, 0};
	uint32_t count = level->to - level->from + 1, makings = 0;
	bool fell = false;
	for (uint32_t i = 0; i < count; i++) {
		if (alive[i] <= rise.most) {
			makings += made[i];
			fell |= alive[i] < rise.most - rise.most / 4;
			continue;
		}
		uint32_t gap = level->from + i - rise.latest;
		rise.longest = rise.most && gap > rise.longest ? gap : rise.longest;
		rise.most = alive[i];
		rise.latest = level->from + i;
		makings = 0;
		fell = false;
	}
	uint32_t since = level->to - rise.latest;
	if (makings < FULL_MIN || since < 2 * rise.longest || fell)
		return;
	leak->bound = GM_LEAK_FULL;
	leak->full_since = rise.latest;
	leak->full_blocks = (uint64_t)rise.most;
}

/* ---- by shape -------------------------------------------------------------------------------- */

/* A block that is alive, by the dimension in which it differs from the others. */
struct entry {
	int64_t size; /* of the dimension */
	uint32_t iteration;
	uint32_t seen; /* the latest iteration in which the size occurred, from `iteration` on */
	bool before;   /* the size occurred before the block was made: it says nothing */
	bool with;     /* it occurs in other blocks of the iteration */
};
struct entries {
	GM_ARRAY(struct entry) list;
};

static bool tensor_of(
        const struct gm_model *model, uint32_t block, struct gm_log_tensor *ret_tensor)
{
	struct gm_event event;
	gm_log_event(gm_model_log(model), gm_model_block(model, block)->alloc, &event);
	return event.tensor && gm_log_tensor(gm_model_log(model), event.tensor, ret_tensor);
}

static bool is_alive(const struct gm_growth *growth, const struct gm_level *level, uint32_t block)
{
	return gm_block_live_after(gm_model_block(growth->model, block), level->end);
}

/* The first dimension in which the blocks that are alive differ. False: they are of different
 * ranks, a shape is not known, or all are alike. */
static bool find_dimension(struct gm_growth *growth, const struct gm_level *level,
        const struct line *line, uint32_t *ret_dimension)
{
	struct gm_log_tensor first, other;
	bool any = false;
	uint32_t dimension = UINT32_MAX;
	for (size_t i = 0; i < line->blocks.count; i++) {
		if (!is_alive(growth, level, line->blocks.items[i]))
			continue;
		if (!tensor_of(growth->model, line->blocks.items[i], any ? &other : &first))
			return false;
		for (uint32_t j = 0; any && j < first.dimensions; j++) {
			if (other.dimensions != first.dimensions)
				return false;
			if (other.sizes[j] != first.sizes[j] && j < dimension)
				dimension = j;
		}
		any = true;
	}
	*ret_dimension = dimension;
	return dimension != UINT32_MAX;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;
	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return left->iteration < right->iteration ? -1 : left->iteration > right->iteration;
}

/* The entries, one for each iteration and size. *ret_alike: a size came again. */
static bool find_entries(struct gm_growth *growth, const struct gm_level *level,
        const struct line *line, uint32_t dimension, struct entries *entries, bool *ret_alike)
{
	size_t kept = 0;
	*ret_alike = false;
	for (size_t i = 0; i < line->blocks.count; i++) {
		struct gm_log_tensor tensor;
		uint32_t block = line->blocks.items[i];
		if (!is_alive(growth, level, block) || !tensor_of(growth->model, block, &tensor))
			continue;
		struct entry entry = {.size = tensor.sizes[dimension],
		        .iteration = gm_level_iteration(
		                level, growth->model, gm_model_block(growth->model, block)->alloc)};
		if (!gm_array_push(&entries->list, entry))
			return false;
	}
	struct entry *list = entries->list.items;
	if (entries->list.count)
		qsort(list, entries->list.count, sizeof(*list), compare_entries);
	for (size_t i = 0; i < entries->list.count; i++) {
		if (kept && list[kept - 1].size == list[i].size) {
			*ret_alike |= list[kept - 1].iteration != list[i].iteration;
			continue;
		}
		list[kept++] = list[i];
	}
	entries->list.count = kept;
	return true;
}

/* What the iterations, in their order, have of the sizes. */
struct sizes {
	uint32_t from;
	uint32_t latest, latest_before; /* iterations in which one occurred; 0: none */
	bool *again;                    /* by iteration: a size came again */
};

/* The size occurs in another block of an iteration. */
static void take_size(
        struct entries *entries, int64_t size, uint32_t iteration, struct sizes *sizes)
{
	struct entry *list = entries->list.items;
	size_t at = gm_partition_point(entries->list.count, middle, list[middle].size < size);
	if (at == entries->list.count || list[at].size != size)
		return;
	if (iteration < list[at].iteration) {
		list[at].before = true;
		return;
	}
	if (iteration == list[at].iteration)
		list[at].with = true;
	if (list[at].before)
		return;
	if (sizes->latest != iteration) {
		sizes->latest_before = sizes->latest;
		sizes->latest = iteration;
	}
	/* since it occurred another one did */
	if (list[at].seen && list[at].seen < sizes->latest_before)
		sizes->again[iteration - sizes->from] = true;
	list[at].seen = iteration;
}

static void judge_shapes(struct gm_growth *growth, const struct gm_level *level,
        struct entries *entries, const bool *made, bool *again, struct gm_leak *leak)
{
	const struct gm_model *model = growth->model;
	uint32_t count = level->to - level->from + 1, making = 0, recurrences = 0, with = 0;
	struct sizes sizes = {.from = level->from, .again = again};
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		struct gm_log_tensor tensor;
		uint32_t stack, native;
		uint64_t site;
		if (block->device != growth->device || block->alloc == GM_NO_EVENT)
			continue;
		uint32_t iteration = gm_level_iteration(level, model, block->alloc);
		if (iteration < level->from || iteration > level->to ||
		        !tensor_of(model, (uint32_t)i, &tensor))
			continue;
		gm_model_stacks(model, block->alloc, &stack, &native);
		if (!gm_growth_site(growth, stack, &site) || site == leak->site)
			continue;
		for (uint32_t j = 0; j < tensor.dimensions; j++)
			take_size(entries, tensor.sizes[j], iteration, &sizes);
	}
	for (uint32_t i = 0; i < count; i++) {
		making += made[i];
		recurrences += again[i] && !made[i];
	}
	for (size_t i = 0; i < entries->list.count; i++)
		with += entries->list.items[i].with && !entries->list.items[i].before;
	double chance = pow(1 - (double)making / count, recurrences);
	leak->recurrences = recurrences;
	leak->follows_shapes = with >= entries->list.count - entries->list.count / 4;
	if (leak->follows_shapes && recurrences >= RECURRENCES_MIN && chance <= CHANCE_MOST)
		leak->bound = GM_LEAK_BY_SHAPE;
}

/* ---- all lines ------------------------------------------------------------------------------- */

static struct gm_error *judge(
        struct gm_growth *growth, const struct gm_level *level, struct line *line)
{
	uint32_t count = level->to - level->from + 1, dimension;
	_cleanup_free_ int64_t *alive = calloc(count, sizeof(*alive));
	_cleanup_free_ bool *made = calloc(count, sizeof(*made));
	_cleanup_free_ bool *again = calloc(count, sizeof(*again));
	struct entries entries = {0};
	bool alike = false, good = alive && made && again;
	if (!good)
		return &gm_error_no_memory;
	count_alive(growth, level, line, alive, made);
	line->leak->bound_level = line->leak->level;
	judge_full(level, alive, made, line->leak);
	if (line->leak->bound == GM_LEAK_GROWS && find_dimension(growth, level, line, &dimension))
		good = find_entries(growth, level, line, dimension, &entries, &alike);
	if (good && entries.list.count && !alike)
		judge_shapes(growth, level, &entries, made, again, line->leak);
	gm_array_deinit(&entries.list);
	return good ? NULL : &gm_error_no_memory;
}

static struct line *line_of(struct line *lines, size_t count, uint64_t site)
{
	for (size_t i = 0; i < count; i++)
		if (lines[i].leak->site == site)
			return &lines[i];
	return NULL;
}

/* The blocks of the lines that outlived the iteration that made them. */
static struct gm_error *collect(
        struct gm_growth *growth, const struct gm_level *level, struct line *lines, size_t count)
{
	const struct gm_model *model = growth->model;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		uint32_t end = gm_block_end(block), stack, native;
		uint64_t site;
		if (block->device != growth->device || block->alloc == GM_NO_EVENT)
			continue;
		uint32_t iteration = gm_level_iteration(level, model, block->alloc);
		if (!iteration || iteration > level->to ||
		        (end <= level->end && gm_level_iteration(level, model, end) == iteration))
			continue;
		gm_model_stacks(model, block->alloc, &stack, &native);
		if (!gm_growth_site(growth, stack, &site))
			return &gm_error_no_memory;
		struct line *line = line_of(lines, count, site);
		if (line && !gm_array_push(&line->blocks, (uint32_t)i))
			return &gm_error_no_memory;
	}
	return NULL;
}

struct gm_error *gm_growth_judge_bounds(struct gm_growth *growth, const struct gm_level *level,
        struct gm_leaks *leaks, size_t first)
{
	size_t count = 0;
	if (leaks->count <= first)
		return NULL;
	_cleanup_free_ struct line *lines = calloc(leaks->count - first, sizeof(*lines));
	if (!lines)
		return &gm_error_no_memory;
	for (size_t i = first; i < leaks->count; i++)
		if (!leaks->items[i].joined)
			lines[count++].leak = &leaks->items[i];
	struct gm_error *error = count ? collect(growth, level, lines, count) : NULL;
	for (size_t i = 0; i < count && !error; i++)
		error = judge(growth, level, &lines[i]);
	for (size_t i = 0; i < count; i++)
		gm_array_deinit(&lines[i].blocks);
	return error;
}
