#include "ask/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "ask/recording/growth.h"
#include "ask/context.h"
#include "ask/recording/growth_bounded.h"
#include "ask/recording/growth_joined.h"
#include "ask/recording/growth_later.h"
#include "ask/recording/growth_latest.h"
#include "ask/recording/growth_levels.h"
#include "ask/recording/leak.h"
#include "base/cleanup.h"
#include "base/search.h"

static int compare_shares(const void *a, const void *b)
{
	const struct gm_share *left = a, *right = b;
	if (left->site != right->site)
		return left->site < right->site ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

static int compare_leaks(const void *a, const void *b)
{
	const struct gm_leak *left = a, *right = b;
	if (left->level != right->level)
		return left->level < right->level ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

/* ---- what is bounded ------------------------------------------------------------------------- */

static int compare_sizes(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/* What was there before the first step; false: no memory. */
static bool find_parameters(struct gm_growth *growth)
{
	const struct gm_model *model = growth->model;
	uint32_t first = gm_first_of_steps(model);
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->alloc != GM_NO_EVENT && block->alloc >= first)
			break;
		if (block->device == growth->device && gm_block_end(block) > first &&
		        !gm_array_push(&growth->parameters, block->size))
			return false;
	}
	if (growth->parameters.count)
		qsort(growth->parameters.items, growth->parameters.count,
		        sizeof(*growth->parameters.items), compare_sizes);
	return true;
}

static size_t parameters_of(const struct gm_growth *growth, uint64_t size)
{
	const uint64_t *sizes = growth->parameters.items;
	size_t count = growth->parameters.count;
	return gm_partition_point(count, middle, sizes[middle] <= size) -
	       gm_partition_point(count, middle, sizes[middle] < size);
}

/* How many blocks of one size there may be for each parameter of that size, by the phase that made
 * them: a gradient, what an optimizer keeps of each; 0: any number. */
static size_t bounded_each(enum gm_phase phase)
{
	enum { STATES = 3 };
	return phase == GM_PHASE_BACKWARD ? 1 : phase == GM_PHASE_OPTIMIZER ? STATES : 0;
}

static int compare_kinds(const void *a, const void *b)
{
	const struct gm_share *left = a, *right = b;
	if (left->site != right->site)
		return left->site < right->site ? -1 : 1;
	if (left->phase != right->phase)
		return left->phase < right->phase ? -1 : 1;
	return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

/* PyTorch keeps a workspace for each of cuBLAS's handles and streams: no growth, unless a program
 * makes streams again and again. The shares are of one size, and of one line. */
static bool is_kept_workspace(const struct gm_growth *growth, const struct gm_level *level,
        const struct gm_share *shares, size_t count)
{
	uint32_t first = UINT32_MAX, last = 0;
	if (!growth->categories ||
	        gm_categories_of(growth->categories, shares[0].block) != GM_CATEGORY_WORKSPACE)
		return false;
	for (size_t i = 0; i < count; i++) {
		first = shares[i].iteration < first ? shares[i].iteration : first;
		last = shares[i].iteration > last ? shares[i].iteration : last;
	}
	return !gm_level_spreads(level, (uint32_t)count, first, last);
}

/* Leaves out the blocks of which a line has only as many as there are parameters, and libraries'
 * workspaces, and returns how many others there are. A line may have made all kinds, where it is
 * the call of a trainer. */
static size_t leave_out_bounded(const struct gm_growth *growth, const struct gm_level *level,
        struct gm_share *shares, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(shares, count, sizeof(*shares), compare_kinds);
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i; next < count && compare_kinds(&shares[i], &shares[next]) == 0;)
			next++;
		size_t most = bounded_each((enum gm_phase)shares[i].phase) *
		              parameters_of(growth, shares[i].bytes);
		if (next - i > most && !is_kept_workspace(growth, level, &shares[i], next - i)) {
			memmove(&shares[kept], &shares[i], (next - i) * sizeof(*shares));
			kept += next - i;
		}
	}
	return kept;
}

/* ---- what piles up --------------------------------------------------------------------------- */

/* What blocks were left by which lines: in progress. */
struct collection {
	struct gm_growth *growth;
	const struct gm_level *level;
	GM_ARRAY(struct gm_share) shares; /* once piles were sought: those that count */
};

/* A block that is still there; false: no memory. */
static bool add_block(struct collection *collection, uint32_t index)
{
	const struct gm_model *model = collection->growth->model;
	const struct gm_block *block = gm_model_block(model, index);
	uint32_t stack, native;
	uint32_t iteration = gm_level_iteration(collection->level, model, block->alloc);
	if (iteration < collection->level->from || iteration > collection->level->to)
		return true;
	gm_model_stacks(model, block->alloc, &stack, &native);
	struct gm_share share = {.iteration = iteration,
	        .stack = stack,
	        .block = index,
	        .bytes = block->size,
	        .phase = (uint8_t)gm_model_phase(model, block->alloc)};
	return gm_growth_site(collection->growth, stack, &share.site) &&
	       gm_array_push(&collection->shares, share);
}

static struct gm_error *collect(struct collection *collection)
{
	const struct gm_model *model = collection->growth->model;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->device == collection->growth->device && block->alloc != GM_NO_EVENT &&
		        gm_block_live_after(block, collection->level->end) &&
		        !add_block(collection, (uint32_t)i))
			return &gm_error_no_memory;
	}
	return NULL;
}

static enum gm_category largest(const uint64_t bytes[GM_CATEGORY_COUNT])
{
	unsigned best = 0;
	for (unsigned i = 1; i < GM_CATEGORY_COUNT; i++)
		best = bytes[i] > bytes[best] ? i : best;
	return (enum gm_category)best;
}

/* The lines that pile up over the loop's iterations. Gradients and an optimizer's state do not,
 * whatever else their line has made. */
static struct gm_error *find_piles(
        struct collection *collection, uint32_t level_index, struct gm_leaks *leaks)
{
	struct gm_share *shares = collection->shares.items;
	size_t count = leave_out_bounded(
	        collection->growth, collection->level, shares, collection->shares.count);
	collection->shares.count = count;
	if (count)
		qsort(shares, count, sizeof(*shares), compare_shares);
	for (size_t i = 0, next; i < count; i = next) {
		struct gm_leak leak = {
		        .site = shares[i].site, .oldest = shares[i].block, .level = level_index};
		uint32_t first = shares[i].iteration, last = 0;
		uint64_t bytes[GM_CATEGORY_COUNT] = {0};
		for (next = i; next < count && shares[next].site == shares[i].site; next++) {
			leak.steps += shares[next].iteration != last;
			last = shares[next].iteration;
			leak.bytes += shares[next].bytes;
			leak.blocks++;
			leak.block = shares[next].block;
			leak.stack = shares[next].stack;
			if (collection->growth->categories)
				bytes[gm_categories_of(collection->growth->categories,
				        shares[next].block)] += shares[next].bytes;
		}
		leak.category = largest(bytes);
		if (gm_level_spreads(collection->level, leak.steps, first, last))
			gm_try(gm_leaks_add(leaks, &leak));
	}
	return NULL;
}

/* What one loop shows to be bounded is so for all of them. */
static void take_bound(struct gm_leak *leak, const struct gm_leak *other)
{
	if (other->site != leak->site || other->level == leak->level || leak->joined ||
	        other->joined || leak->bound != GM_LEAK_GROWS || other->level > leak->level)
		return;
	leak->bound = other->bound;
	leak->bound_level = other->bound_level;
	leak->full_since = other->full_since;
	leak->full_blocks = other->full_blocks;
	leak->recurrences = other->recurrences;
}

/* Of what a line left, as several loops see it, the loop counts that it left something in the
 * largest part of; the inner one, where they are alike. */
static void keep_best(struct gm_leaks *leaks)
{
	size_t kept = 0;
	for (size_t i = 0; i < leaks->count; i++)
		for (size_t j = 0; j < leaks->count; j++)
			take_bound(&leaks->items[i], &leaks->items[j]);
	for (size_t i = 0; i < leaks->count; i++) {
		const struct gm_leak leak = leaks->items[i];
		const struct gm_leak_loop *loop = &leaks->loops[leak.level];
		bool best = true;
		for (size_t j = 0; j < leaks->count && best; j++) {
			const struct gm_leak *other = &leaks->items[j];
			const struct gm_leak_loop *its = &leaks->loops[other->level];
			if (other->site != leak.site)
				continue;
			if (other->level ==
			        leak.level) { /* it piles up, in blocks of growing size */
				best = !leak.joined || other->joined;
				continue;
			}
			uint64_t part = (uint64_t)leak.steps * (its->to - its->from + 1),
			         its_part = (uint64_t)other->steps * (loop->to - loop->from + 1);
			best = part > its_part || (part == its_part && leak.level < other->level);
		}
		leaks->items[i].left_out = !best;
	}
	for (size_t i = 0; i < leaks->count; i++)
		if (!leaks->items[i].left_out)
			leaks->items[kept++] = leaks->items[i];
	leaks->count = kept;
}

static struct gm_error *look(struct collection *collection, struct gm_leaks *leaks)
{
	struct gm_growth *growth = collection->growth;
	const struct gm_level *level = collection->level;
	leaks->loops[leaks->loop_count++] = (struct gm_leak_loop){
	        level->loop, level->kind, level->of_steps, level->from, level->to};
	if (level->to < level->from)
		return NULL;
	uint32_t index = leaks->loop_count - 1;
	size_t first = leaks->count;
	struct gm_error *error = collect(collection);
	/* the last of the steps is not examined at all, nor is that of a phase */
	bool to_end = level->kind == GM_LEAK_LOOP_AROUND || level->kind == GM_LEAK_LOOP_LATER;
	if (!error && to_end &&
	        !gm_growth_leave_out_latest(
	                growth, level, collection->shares.items, &collection->shares.count))
		error = &gm_error_no_memory;
	if (!error && !gm_growth_leave_out_windows(
	                      growth, level, collection->shares.items, &collection->shares.count))
		error = &gm_error_no_memory;
	if (!error)
		error = find_piles(collection, index, leaks);
	if (!error)
		error = gm_growth_judge_bounds(growth, level, leaks, first);
	if (!error)
		error = gm_growth_find_joined(growth, level, index, leaks);
	return error;
}

static struct gm_error *look_at(
        struct gm_growth *growth, const struct gm_level *level, struct gm_leaks *leaks)
{
	struct collection collection = {.growth = growth, .level = level};
	struct gm_error *error = look(&collection, leaks);
	gm_array_deinit(&collection.shares);
	return error;
}

static struct gm_error *find(
        struct gm_growth *growth, const struct gm_levels *levels, struct gm_leaks *leaks)
{
	leaks->from = levels->items[0].from;
	leaks->to = levels->items[0].to;
	if (growth->device == SIZE_MAX)
		return NULL;
	if (!find_parameters(growth))
		return &gm_error_no_memory;
	for (uint32_t i = 0; i < levels->count; i++)
		gm_try(look_at(growth, &levels->items[i], leaks));
	return gm_growth_look_later(growth, levels, leaks) ? NULL : &gm_error_no_memory;
}

struct gm_error *gm_ask_leaks_of(
        struct gm_context *context, size_t device, struct gm_leaks *ret_leaks)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_leaks leaks = {.model = model,
	        .device = device == SIZE_MAX ? gm_model_main_device(model) : device};
	struct gm_growth growth;
	struct gm_levels levels;
	gm_growth_init(&growth, model, leaks.device);
	gm_try(gm_levels_find(model, leaks.device, &levels));
	struct gm_error *error = gm_model_categories(model, &growth.categories);
	if (!error)
		error = find(&growth, &levels, &leaks);
	gm_levels_deinit(&levels);
	gm_growth_deinit(&growth);
	if (error) {
		gm_leaks_deinit(&leaks);
		return error;
	}
	keep_best(&leaks);
	if (leaks.count)
		qsort(leaks.items, leaks.count, sizeof(*leaks.items), compare_leaks);
	for (size_t i = 0; i < leaks.count; i++)
		if (leaks.items[i].joined)
			leaks.items[i].category =
			        gm_categories_of(growth.categories, leaks.items[i].block);
	error = gm_leaks_part(&leaks);
	if (error) {
		gm_leaks_deinit(&leaks);
		return error;
	}
	*ret_leaks = leaks;
	return NULL;
}

struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks)
{
	return gm_ask_leaks_of(context, SIZE_MAX, ret_leaks);
}

struct gm_error *gm_leaks_among(const struct gm_model *model, const uint32_t *blocks, size_t count,
        struct gm_leaks *ret_leaks)
{
	struct gm_leaks leaks = {.model = model, .device = gm_model_main_device(model)};
	const struct gm_level steps = gm_level_of_steps(model, leaks.device);
	struct gm_growth growth;
	gm_growth_init(&growth, model, leaks.device);
	struct collection collection = {.growth = &growth, .level = &steps};
	struct gm_error *error = NULL;
	leaks.from = steps.from;
	leaks.to = steps.to;
	leaks.loops[leaks.loop_count++] =
	        (struct gm_leak_loop){.of_steps = true, .from = steps.from, .to = steps.to};
	for (size_t i = 0; i < count && leaks.to >= leaks.from && !error; i++)
		if (!add_block(&collection, blocks[i]))
			error = &gm_error_no_memory;
	if (!error)
		error = find_piles(&collection, 0, &leaks);
	gm_array_deinit(&collection.shares);
	gm_growth_deinit(&growth);
	if (error) {
		gm_leaks_deinit(&leaks);
		return error;
	}
	if (leaks.count)
		qsort(leaks.items, leaks.count, sizeof(*leaks.items), compare_leaks);
	*ret_leaks = leaks;
	return NULL;
}

/* Of the blocks that were examined those of lines that leak, and the blocks that grow. False: no
 * memory. */
static bool keep_leaked(struct collection *collection, const struct gm_leaks *leaks)
{
	size_t kept = 0;
	for (size_t i = 0; i < collection->shares.count; i++) {
		bool leaks_too = false;
		for (size_t j = 0; j < leaks->count; j++)
			leaks_too |= !leaks->items[j].joined &&
			             leaks->items[j].site == collection->shares.items[i].site;
		if (leaks_too)
			collection->shares.items[kept++] = collection->shares.items[i];
	}
	collection->shares.count = kept;
	for (size_t i = 0; i < leaks->count; i++)
		if (leaks->items[i].joined &&
		        !gm_array_push(&collection->shares,
		                ((struct gm_share){.site = leaks->items[i].site,
		                        .block = leaks->items[i].block,
		                        .bytes = gm_model_block(leaks->model, leaks->items[i].block)
		                                         ->size})))
			return false;
	return true;
}

struct gm_error *gm_leaks_of_loop(const struct gm_model *model, size_t device,
        const struct gm_level *level, struct gm_leaks *ret_leaks, struct gm_share **ret_shares,
        size_t *ret_count)
{
	struct gm_leaks leaks = {.model = model, .device = device};
	struct gm_growth growth;
	struct collection collection = {.growth = &growth, .level = level};
	gm_growth_init(&growth, model, device);
	growth.in_packages = level->in_packages;
	struct gm_error *error = find_parameters(&growth) ? NULL : &gm_error_no_memory;
	if (!error)
		error = look(&collection, &leaks);
	if (!error) {
		keep_best(&leaks);
		error = gm_leaks_part(&leaks);
	}
	if (!error && !keep_leaked(&collection, &leaks))
		error = &gm_error_no_memory;
	gm_growth_deinit(&growth);
	if (error) {
		gm_array_deinit(&collection.shares);
		gm_leaks_deinit(&leaks);
		return error;
	}
	*ret_leaks = leaks;
	*ret_shares = collection.shares.items;
	*ret_count = collection.shares.count;
	return NULL;
}
