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

static struct gm_error *collect(
        const struct gm_leaks *leaks, struct share **ret_shares, size_t *ret_count)
{
	enum { KNOWN_STACKS = 1 << 16 };
	const struct gm_model *model = leaks->model;
	_cleanup_free_ uint64_t *known = calloc(KNOWN_STACKS, sizeof(*known));
	GM_ARRAY(struct share) shares = {0};
	uint32_t end = end_of_loop(model);
	if (!known)
		return &gm_error_no_memory;
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->device != leaks->device || block->alloc == GM_NO_EVENT)
			continue;
		uint32_t step = gm_model_step(model, block->alloc);
		if (step < leaks->from || step > leaks->to || !gm_block_live_after(block, end))
			continue;
		struct gm_event event;
		gm_log_event(gm_model_log(model), block->alloc, &event);
		const struct share share = {
		        .site = site_of(
		                gm_model_log(model), event.python_stack, known, KNOWN_STACKS),
		        .step = step,
		        .stack = event.python_stack,
		        .block = (uint32_t)i,
		        .bytes = block->size,
		};
		if (!gm_array_push(&shares, share)) {
			gm_array_deinit(&shares);
			return &gm_error_no_memory;
		}
	}
	*ret_shares = shares.items;
	*ret_count = shares.count;
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

static struct gm_error *find(
        struct gm_leaks *leaks, struct gm_model *model, const struct share *shares, size_t count)
{
	const struct gm_categories *categories;
	GM_ARRAY(struct gm_leak) found = {0};
	gm_try(gm_model_categories(model, &categories));
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
		leak.category = gm_categories_of(categories, leak.block);
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

struct gm_error *gm_ask_leaks(struct gm_context *context, struct gm_leaks *ret_leaks)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	struct gm_leaks leaks = {
	        .model = model, .device = gm_model_main_device(model), .from = 2, .to = 1};
	uint32_t steps = gm_model_step_count(model);
	/* The first step makes what all later ones use, and the last one's blocks may still be freed. */
	if (leaks.device != SIZE_MAX && steps > GM_LEAK_STEPS_MIN + 1)
		leaks.to = steps - 1;
	if (leaks.to >= leaks.from) {
		_cleanup_free_ struct share *shares = NULL;
		size_t count = 0;
		gm_try(collect(&leaks, &shares, &count));
		if (count)
			qsort(shares, count, sizeof(*shares), compare_shares);
		gm_try(find(&leaks, model, shares, count));
	}
	*ret_leaks = leaks;
	return NULL;
}
