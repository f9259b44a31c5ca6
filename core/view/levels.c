/*
 * Levels of detail. A bucket is 64 events; it has the sums by category as they were after that of
 * its events after which most was allocated. So a picture of buckets shows each peak, and a bucket
 * is a state that was there, not a mix of several.
 */
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "view/device.h"

/* The last sum is what is allocated and in no block: blocks from before the recording. */
enum { SUMS = GM_CATEGORY_COUNT + 1, REST = GM_CATEGORY_COUNT };

struct state {
	uint64_t allocated;
	uint64_t sums[SUMS];
};

struct bucket {
	uint32_t at; /* the event, counted from the bucket's first */
	bool filled;
	struct state state;
};

struct change {
	uint32_t event;
	uint64_t bytes;
};

struct levels {
	struct bucket *buckets;
	size_t count;
	GM_ARRAY(struct change) reserved, rest, oom;
	bool no_memory;
};

static void deinit(struct levels *levels)
{
	free(levels->buckets);
	gm_array_deinit(&levels->reserved);
	gm_array_deinit(&levels->rest);
	gm_array_deinit(&levels->oom);
}

#define note(levels, list, number, value)                       \
	((levels)->no_memory |= !gm_array_push(&(levels)->list, \
	         ((struct change){.event = (uint32_t)(number), .bytes = (value)})))

/* The state was that after each event of [from, end). */
static void fill(struct levels *levels, const struct state *state, uint32_t from, uint32_t end)
{
	if (from >= end)
		return;
	for (uint32_t i = from / GM_VIEW_BUCKET; i <= (end - 1) / GM_VIEW_BUCKET; i++) {
		struct bucket *bucket = &levels->buckets[i];
		uint32_t first = i * GM_VIEW_BUCKET;
		if (bucket->filled && bucket->state.allocated >= state->allocated)
			continue;
		bucket->filled = true;
		bucket->state = *state;
		bucket->at = from > first ? from - first : 0;
	}
}

static void take_block(const struct gm_model *model, const struct gm_categories *categories,
        const struct gm_walk *walk, struct state *state, uint64_t *in_blocks)
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
        const struct gm_categories *categories, struct levels *levels)
{
	uint32_t events = (uint32_t)gm_log_event_count(gm_model_log(model)), since = 0;
	struct state state = {0};
	uint64_t in_blocks = 0, reserved = 0;
	struct gm_walk walk = gm_walk_begin_brief(model, device);
	while (gm_walk_next(&walk)) {
		fill(levels, &state, since, walk.number);
		since = walk.number;
		if (walk.block != GM_NO_BLOCK)
			take_block(model, categories, &walk, &state, &in_blocks);
		uint64_t rest = walk.usage.allocated - in_blocks;
		if (rest != state.sums[REST])
			note(levels, rest, walk.number, rest);
		if (walk.usage.reserved != reserved)
			note(levels, reserved, walk.number, walk.usage.reserved);
		if (walk.event.action == GM_OOM)
			note(levels, oom, walk.number, walk.event.size);
		state.sums[REST] = rest;
		state.allocated = walk.usage.allocated;
		reserved = walk.usage.reserved;
	}
	fill(levels, &state, since, events);
}

static void begin(
        struct gm_view_columns *columns, size_t device, const char *name, enum gm_view_form form)
{
	char text[128];
	snprintf(text, sizeof(text), "d%zu.%s", device, name);
	gm_view_column_begin(columns, text, form);
}

static void write_changes(struct gm_view_columns *columns, size_t device, const char *name,
        const struct change *changes, size_t count)
{
	char text[64];
	snprintf(text, sizeof(text), "%s.event", name);
	begin(columns, device, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, changes[i].event);
	gm_view_column_end(columns);
	snprintf(text, sizeof(text), "%s.bytes", name);
	begin(columns, device, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < count; i++)
		gm_view_put(columns, changes[i].bytes);
	gm_view_column_end(columns);
}

static void write_sum(struct gm_view_columns *columns, size_t device, const struct levels *levels,
        size_t sum, const char *name)
{
	bool any = false;
	char text[64];
	for (size_t i = 0; i < levels->count && !any; i++)
		any = levels->buckets[i].state.sums[sum] != 0;
	if (!any)
		return;
	snprintf(text, sizeof(text), "level.%s", name);
	begin(columns, device, text, GM_VIEW_DIFFERENCES);
	for (size_t i = 0; i < levels->count; i++)
		gm_view_put(columns, levels->buckets[i].state.sums[sum]);
	gm_view_column_end(columns);
}

struct gm_error *gm_view_device_levels(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, struct gm_view_columns *columns)
{
	uint64_t events = gm_log_event_count(gm_model_log(model));
	_cleanup_(deinit) struct levels levels = {
	        .count = (size_t)((events + GM_VIEW_BUCKET - 1) / GM_VIEW_BUCKET)};
	levels.buckets = calloc(levels.count + 1, sizeof(*levels.buckets));
	if (!levels.buckets)
		return &gm_error_no_memory;
	walk_device(model, device, categories, &levels);
	if (levels.no_memory)
		return &gm_error_no_memory;
	begin(columns, device, "level.at", GM_VIEW_NUMBERS);
	for (size_t i = 0; i < levels.count; i++)
		gm_view_put(columns, levels.buckets[i].at);
	gm_view_column_end(columns);
	for (size_t i = 0; i < GM_CATEGORY_COUNT; i++)
		write_sum(columns, device, &levels, i, gm_category_name((enum gm_category)i));
	write_sum(columns, device, &levels, REST, "rest");
	write_changes(columns, device, "reserved", levels.reserved.items, levels.reserved.count);
	write_changes(columns, device, "rest", levels.rest.items, levels.rest.count);
	write_changes(columns, device, "oom", levels.oom.items, levels.oom.count);
	return NULL;
}
