#include "ask/recording/leak.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

static void free_items(struct gm_leak *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (items[i].holder)
			gm_holder_deinit(&items[i].holder->first);
		free(items[i].holder);
	}
	free(items);
}

void gm_leaks_deinit(struct gm_leaks *leaks)
{
	free_items(leaks->items, leaks->count);
	free_items(leaks->bounded, leaks->bounded_count);
	*leaks = (struct gm_leaks){0};
}

struct gm_error *gm_leaks_part(struct gm_leaks *leaks)
{
	size_t kept = 0, all = leaks->bounded_count + leaks->count;
	struct gm_leak *bounded = realloc(leaks->bounded, (all + 1) * sizeof(*bounded));
	if (!bounded)
		return &gm_error_no_memory;
	leaks->bounded = bounded;
	for (size_t i = 0; i < leaks->count; i++) {
		if (leaks->items[i].bound == GM_LEAK_GROWS)
			leaks->items[kept++] = leaks->items[i];
		else
			leaks->bounded[leaks->bounded_count++] = leaks->items[i];
	}
	leaks->count = kept;
	return NULL;
}

const char *gm_leak_bound_name(enum gm_leak_bound bound)
{
	static const char *const names[GM_LEAK_BOUNDS] = {
	        [GM_LEAK_GROWS] = "none",
	        [GM_LEAK_FULL] = "full",
	        [GM_LEAK_BY_SHAPE] = "by_shape",
	        [GM_LEAK_HAS_LIMIT] = "limit",
	};
	return (unsigned)bound < GM_LEAK_BOUNDS ? names[bound] : "none";
}

const char *gm_leak_loop_kind_name(enum gm_leak_loop_kind kind)
{
	static const char *const names[GM_LEAK_LOOP_KINDS] = {
	        [GM_LEAK_LOOP_STEPS] = "steps",
	        [GM_LEAK_LOOP_AROUND] = "around",
	        [GM_LEAK_LOOP_PHASE] = "phase",
	        [GM_LEAK_LOOP_LATER] = "later",
	};
	return names[kind];
}

struct gm_error *gm_leaks_add(struct gm_leaks *leaks, const struct gm_leak *leak)
{
	/* a power of two means that it is full */
	if (!(leaks->count & (leaks->count - 1))) {
		size_t capacity = leaks->count ? leaks->count * 2 : 1;
		struct gm_leak *items = realloc(leaks->items, capacity * sizeof(*items));
		if (!items)
			return &gm_error_no_memory;
		leaks->items = items;
	}
	leaks->items[leaks->count++] = *leak;
	return NULL;
}
