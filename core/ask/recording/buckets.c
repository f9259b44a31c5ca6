#include "ask/recording/buckets.h"

#include <stdlib.h>

/* Allocations after the current event of the walk. */
struct state {
	uint64_t allocated;
	uint64_t sums[GM_BUCKET_SUMS];
};

void gm_buckets_deinit(struct gm_buckets *buckets)
{
	free(buckets->items);
	gm_array_deinit(&buckets->reserved);
	gm_array_deinit(&buckets->rest);
	gm_array_deinit(&buckets->oom);
	*buckets = (struct gm_buckets){0};
}

#define note(buckets, list, number, value)                        \
	((buckets)->no_memory |= !gm_array_push(&(buckets)->list, \
	         ((struct gm_bucket_change){.event = (number), .bytes = (value)})))

/* The state after each event of [from, end) was the same. */
static void fill(struct gm_buckets *buckets, const struct state *state, uint32_t from, uint32_t end)
{
	if (from >= end)
		return;
	for (uint32_t i = from / buckets->each; i <= (end - 1) / buckets->each; i++) {
		struct gm_bucket *bucket = &buckets->items[i];
		uint32_t first = i * buckets->each;
		if (bucket->filled && bucket->allocated >= state->allocated)
			continue;
		bucket->filled = true;
		bucket->allocated = state->allocated;
		for (int sum = 0; sum < GM_BUCKET_SUMS; sum++)
			bucket->sums[sum] = state->sums[sum];
		bucket->at = from > first ? from - first : 0;
	}
}

static void take_block(const struct gm_model *model, const struct gm_categories *categories,
        const struct gm_state_walk *walk, struct state *state, uint64_t *in_blocks)
{
	const struct gm_block *block = gm_model_block(model, walk->block);
	enum gm_category category = gm_categories_of(categories, walk->block);
	if (block->alloc == GM_NO_EVENT)
		return;
	if (walk->number == block->alloc) {
		state->sums[category] += block->size;
		*in_blocks += block->size;
	} else if (walk->number == gm_block_end(block)) {
		state->sums[category] -= block->size;
		*in_blocks -= block->size;
	}
}

static void walk_device(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_buckets *buckets)
{
	uint32_t events = (uint32_t)gm_log_event_count(gm_model_log(model)), since = 0;
	struct state state = {0};
	uint64_t in_blocks = 0, reserved = 0;
	struct gm_state_walk walk = gm_state_walk_begin_brief(model, device);
	while (gm_state_walk_next(&walk)) {
		fill(buckets, &state, since, walk.number);
		since = walk.number;
		if (walk.block != GM_NO_BLOCK)
			take_block(model, categories, &walk, &state, &in_blocks);
		uint64_t rest = walk.usage.allocated - in_blocks;
		if (rest != state.sums[GM_BUCKET_REST])
			note(buckets, rest, walk.number, rest);
		if (walk.usage.reserved != reserved)
			note(buckets, reserved, walk.number, walk.usage.reserved);
		if (walk.event.action == GM_OOM)
			note(buckets, oom, walk.number, walk.event.size);
		state.sums[GM_BUCKET_REST] = rest;
		state.allocated = walk.usage.allocated;
		reserved = walk.usage.reserved;
	}
	fill(buckets, &state, since, events);
}

struct gm_error *gm_buckets_find(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, uint32_t each, struct gm_buckets *ret_buckets)
{
	uint64_t events = gm_log_event_count(gm_model_log(model));
	struct gm_buckets buckets = {.each = each, .count = (size_t)((events + each - 1) / each)};
	buckets.items = calloc(buckets.count + 1, sizeof(*buckets.items));
	if (!buckets.items)
		return &gm_error_no_memory;
	walk_device(model, device, categories, &buckets);
	if (buckets.no_memory) {
		gm_buckets_deinit(&buckets);
		return &gm_error_no_memory;
	}
	*ret_buckets = buckets;
	return NULL;
}
