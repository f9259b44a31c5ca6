#include "ask/leaks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash.h"

void gm_leaks_deinit(struct gm_leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++) {
		if (leaks->items[i].holder)
			free(leaks->items[i].holder->text);
		free(leaks->items[i].holder);
	}
	free(leaks->items);
	*leaks = (struct gm_leaks){0};
}

/* A block that was left, and the line that did. */
struct share {
	uint64_t site; /* hash of file, line and function */
	uint32_t step, stack, block;
	uint64_t bytes;
};

static uint64_t site_of(const struct gm_log *log, uint32_t stack, uint64_t *known, size_t count)
{
	if (stack < count && known[stack])
		return known[stack];
	struct gm_frame_place place;
	uint64_t site = 1;
	if (gm_place_site(log, stack, &place)) {
		site = gm_hash_bytes(place.file, strlen(place.file), place.line);
		site = gm_hash_bytes(place.function, strlen(place.function), site) | 1;
	}
	if (stack < count)
		known[stack] = site;
	return site;
}

static int compare_shares(const void *a, const void *b)
{
	const struct share *left = a, *right = b;
	if (left->site != right->site)
		return left->site < right->site ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

static int compare_leaks(const void *a, const void *b)
{
	const struct gm_leak *left = a, *right = b;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->block < right->block ? -1 : left->block > right->block;
}

/* The last event of the training loop: what is freed after it was kept until then. */
static uint32_t end_of_loop(const struct gm_model *model)
{
	for (size_t i = gm_model_run_count(model); i-- > 0;) {
		struct gm_model_run run = gm_model_run(model, i);
		if (run.step)
			return run.end - 1;
	}
	return GM_NO_EVENT;
}

/* What blocks were left by which lines: under way. */
struct collection {
	const struct gm_leaks *leaks;
	uint64_t *known; /* sites of stacks, by id; owned */
	GM_ARRAY(struct share) shares;
};
enum { KNOWN_STACKS = 1 << 16 };

static void collection_deinit(struct collection *collection)
{
	free(collection->known);
	gm_array_deinit(&collection->shares);
}

/* A block that is still there; false: no memory. */
static bool add_block(struct collection *collection, uint32_t index)
{
	const struct gm_leaks *leaks = collection->leaks;
	const struct gm_model *model = leaks->model;
	const struct gm_block *block = gm_model_block(model, index);
	if (!collection->known &&
	        !(collection->known = calloc(KNOWN_STACKS, sizeof(*collection->known))))
		return false;
	uint32_t step = gm_model_step(model, block->alloc), stack, native;
	if (step < leaks->from || step > leaks->to)
		return true;
	gm_model_stacks(model, block->alloc, &stack, &native);
	const struct share share = {
	        .site = site_of(gm_model_log(model), stack, collection->known, KNOWN_STACKS),
	        .step = step,
	        .stack = stack,
	        .block = index,
	        .bytes = block->size,
	};
	return gm_array_push(&collection->shares, share);
}

static struct gm_error *collect(struct collection *collection)
{
	const struct gm_model *model = collection->leaks->model;
	uint32_t end = end_of_loop(model);
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->device == collection->leaks->device && block->alloc != GM_NO_EVENT &&
		        gm_block_live_after(block, end) && !add_block(collection, (uint32_t)i))
			return &gm_error_no_memory;
	}
	return NULL;
}

/* Does what a line left come from steps all over the run, the early ones as well? */
static bool grows(
        const struct gm_leaks *leaks, const struct gm_leak *leak, uint32_t first, uint32_t last)
{
	uint32_t steps = leaks->to - leaks->from + 1;
	uint32_t margin = steps / 4;
	return leak->steps >= GM_LEAK_STEPS_MIN && first <= leaks->from + margin &&
	       last + margin >= leaks->to;
}

static struct gm_error *find(struct gm_leaks *leaks, struct collection *collection)
{
	GM_ARRAY(struct gm_leak) found = {0};
	struct share *shares = collection->shares.items;
	size_t count = collection->shares.count;
	if (count)
		qsort(shares, count, sizeof(*shares), compare_shares);
	for (size_t i = 0; i < count;) {
		struct gm_leak leak = {.stack = shares[i].stack, .oldest = shares[i].block};
		uint32_t first = shares[i].step, last = 0;
		size_t j = i;
		for (; j < count && shares[j].site == shares[i].site; j++) {
			leak.steps += shares[j].step != last;
			last = shares[j].step;
			leak.bytes += shares[j].bytes;
			leak.blocks++;
			leak.block = shares[j].block;
			leak.stack = shares[j].stack;
		}
		i = j;
		if (!grows(leaks, &leak, first, last))
			continue;
		if (!gm_array_push(&found, leak)) {
			gm_array_deinit(&found);
			return &gm_error_no_memory;
		}
	}
	if (found.count)
		qsort(found.items, found.count, sizeof(*found.items), compare_leaks);
	leaks->items = found.items;
	leaks->count = found.count;
	return NULL;
}

/* The steps that are looked at: from > to where there are too few. */
static struct gm_leaks begin(const struct gm_model *model)
{
	struct gm_leaks leaks = {
	        .model = model, .device = gm_model_main_device(model), .from = 2, .to = 1};
	uint32_t steps = gm_model_step_count(model);
	/* The first step makes what all later ones use, and the last one's blocks may still be freed. */
	if (leaks.device != SIZE_MAX && steps > GM_LEAK_STEPS_MIN + 1)
		leaks.to = steps - 1;
	return leaks;
}

struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_leaks leaks = begin(model);
	struct collection collection = {.leaks = &leaks};
	const struct gm_categories *categories;
	struct gm_error *error = gm_model_categories(model, &categories);
	if (!error && leaks.to >= leaks.from)
		error = collect(&collection);
	if (!error)
		error = find(&leaks, &collection);
	collection_deinit(&collection);
	if (error)
		return error;
	for (size_t i = 0; i < leaks.count; i++)
		leaks.items[i].category = gm_categories_of(categories, leaks.items[i].block);
	*ret_leaks = leaks;
	return NULL;
}

struct gm_error *gm_leaks_among(const struct gm_model *model, const uint32_t *blocks, size_t count,
        struct gm_leaks *ret_leaks)
{
	struct gm_leaks leaks = begin(model);
	struct collection collection = {.leaks = &leaks};
	struct gm_error *error = NULL;
	for (size_t i = 0; i < count && leaks.to >= leaks.from && !error; i++)
		if (!add_block(&collection, blocks[i]))
			error = &gm_error_no_memory;
	if (!error)
		error = find(&leaks, &collection);
	collection_deinit(&collection);
	if (!error)
		*ret_leaks = leaks;
	return error;
}
