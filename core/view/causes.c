#include "view/causes.h"

#include <stdlib.h>

#include "ask/why.h"
#include "base/array.h"
#include "base/map.h"
#include "render/cause.h"

struct cause {
	uint32_t text, kept; /* numbers of texts */
};

struct gm_view_causes {
	const struct gm_model *model;
	struct gm_view_tables *tables;
	uint32_t *releases; /* for each block: the relevant data of its release, as a number of
	                       ours; 0: it was not released */
	/* Pairs of stacks, and pairs with other relevant data, have numbers of ours from 1. */
	struct gm_map stacks, evidence;
	struct gm_map found; /* from a release and an allocation to a cause */
	GM_ARRAY(struct cause) causes;
	bool no_memory;
};

/* A number for the pair, from 1; 0: out of memory. */
static uint32_t pair(
        struct gm_view_causes *causes, struct gm_map *map, uint32_t one, uint32_t other)
{
	bool new;
	uint64_t *number = gm_map_put(map, ((uint64_t)one << 32 | other) + 1, &new);
	if (!number) {
		causes->no_memory = true;
		return 0;
	}
	if (new)
		*number = map->count;
	return (uint32_t)*number;
}

/* In the order of the events, which is the fastest to read. */
static void find_releases(struct gm_view_causes *causes, size_t device)
{
	const struct gm_log *log = gm_model_log(causes->model);
	for (uint64_t number = 0; number < gm_log_event_count(log); number++) {
		uint32_t block = gm_model_event_block(causes->model, number);
		struct gm_event event;
		if (block == GM_NO_BLOCK ||
		        gm_model_block(causes->model, block)->device != device ||
		        gm_block_end(gm_model_block(causes->model, block)) != number)
			continue;
		gm_log_event(log, number, &event);
		uint32_t stacks =
		        pair(causes, &causes->stacks, event.python_stack, event.native_stack);
		bool borrowed = event.flags & GM_EVENT_BORROWED;
		bool backward = gm_model_phase(causes->model, number) == GM_PHASE_BACKWARD;
		causes->releases[block] = pair(causes, &causes->evidence,
		        stacks << 2 | borrowed << 1 | backward, event.evidence);
	}
}

void gm_view_causes_destroy(struct gm_view_causes *causes)
{
	if (!causes)
		return;
	free(causes->releases);
	gm_map_deinit(&causes->stacks);
	gm_map_deinit(&causes->evidence);
	gm_map_deinit(&causes->found);
	gm_array_deinit(&causes->causes);
	free(causes);
}

struct gm_error *gm_view_causes_create(const struct gm_model *model, size_t device,
        struct gm_view_tables *tables, struct gm_view_causes **ret_causes)
{
	struct gm_view_causes *causes = calloc(1, sizeof(*causes));
	if (!causes)
		return &gm_error_no_memory;
	causes->model = model;
	causes->tables = tables;
	causes->releases = calloc(gm_model_block_count(model) + 1, sizeof(*causes->releases));
	if (causes->releases)
		find_releases(causes, device);
	if (!causes->releases || causes->no_memory) {
		gm_view_causes_destroy(causes);
		return &gm_error_no_memory;
	}
	*ret_causes = causes;
	return NULL;
}

static uint32_t take_text(struct gm_view_causes *causes, struct gm_error *error, char *text)
{
	if (error) {
		gm_error_destroy(error);
		causes->no_memory = true;
		return 0;
	}
	uint32_t number = gm_view_text(causes->tables, text);
	free(text);
	return number;
}

static struct cause find(struct gm_view_causes *causes, uint32_t number)
{
	struct gm_event event;
	struct gm_why why = {.model = causes->model,
	        .block = *gm_model_block(causes->model, number),
	        .number = number};
	char *text = NULL, *kept = NULL;
	why.freed = gm_block_end(&why.block);
	gm_log_event(gm_model_log(causes->model), why.freed, &event);
	gm_place_site(gm_model_log(causes->model), event.python_stack, &why.freed_at);
	gm_cause_find(causes->model, &why.block, &why.cause);
	why.cause.step = 0; /* the page itself shows it */
	struct cause cause = {0};
	struct gm_error *error = gm_cause_text(&why, &text);
	cause.text = take_text(causes, error, text);
	error = gm_cause_held_until(&why, &kept);
	cause.kept = take_text(causes, error, kept);
	return cause;
}

/* All data that gm_cause_find() uses. */
static uint64_t key_of(const struct gm_view_causes *causes, uint32_t number)
{
	const struct gm_model *model = causes->model;
	const struct gm_block *block = gm_model_block(model, number);
	uint32_t python = 0, native = 0;
	gm_model_stacks(model, block->alloc, &python, &native);
	bool same = gm_model_step(model, block->alloc) == gm_model_step(model, gm_block_end(block));
	bool backward = gm_model_phase(model, block->alloc) == GM_PHASE_BACKWARD;
	uint64_t made = (uint64_t)python << 2 | same << 1 | backward;
	return (uint64_t)causes->releases[number] << 34 | made;
}

uint32_t gm_view_cause(struct gm_view_causes *causes, uint32_t number)
{
	bool new = false;
	if (!causes->releases[number])
		return 0;
	uint64_t key = key_of(causes, number);
	uint64_t *known = gm_map_find(&causes->found, key);
	if (known || causes->causes.count >= GM_VIEW_CAUSES_MOST)
		return known ? (uint32_t)*known : 0;
	uint64_t *place = gm_map_put(&causes->found, key, &new);
	if (!place || !gm_array_push(&causes->causes, find(causes, number))) {
		causes->no_memory = true;
		return 0;
	}
	*place = causes->causes.count;
	return (uint32_t)*place;
}

static void write_numbers(const struct gm_view_causes *causes, size_t device, const char *which,
        bool kept, struct gm_view_columns *columns)
{
	char name[64];
	snprintf(name, sizeof(name), "d%zu.cause.%s", device, which);
	gm_view_column_begin(columns, name, GM_VIEW_NUMBERS);
	for (size_t i = 0; i < causes->causes.count; i++)
		gm_view_put(columns,
		        kept ? causes->causes.items[i].kept : causes->causes.items[i].text);
	gm_view_column_end(columns);
}

struct gm_error *gm_view_causes_write(
        const struct gm_view_causes *causes, size_t device, struct gm_view_columns *columns)
{
	write_numbers(causes, device, "text", false, columns);
	write_numbers(causes, device, "kept", true, columns);
	return causes->no_memory ? &gm_error_no_memory : NULL;
}
