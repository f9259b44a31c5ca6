/*
 * References that retained misses: where counts say that there are more than the graph has, memory is looked through for them, as
 * for who-holds (stray.c, owners.c, settle.c), for all objects that lead to a block at once. In most programs there are none, and
 * nothing is looked for: each round is a few readings of all memory. An object is looked for once: what was not found then is not
 * found by looking again.
 */
#include "holders/retained/unfound.h"

#include "base/cleanup.h"
#include "holders/unattributed/stray.h"
#include "holders/retained/reach.h"
#include "holders/build.h"
#include "holders/graph/instances.h"
#include "holders/retained/reach_build.h"
#include "holders/unattributed/find_strays.h"
#include "holders/unattributed/settle.h"

enum {
	MAX_TARGETS = 4096,
	MAX_ROUNDS = 3, /* what was found has holders of its own */
};

/* The graph's vertices whose counts are higher than what was found, MAX_TARGETS at most; without those of `sought`, by address. */
static size_t find_targets(
        const struct gm_reach *reach, const struct gm_map *sought, uint32_t *ret_targets)
{
	size_t count = 0;
	for (size_t i = 0; i < reach->variables.count; i++) {
		const struct gm_variable *variable = &reach->variables.items[i];
		if (variable->kind != GM_VARIABLE_MISSING)
			continue;
		for (uint32_t e = reach->first[variable->vertex];
		        e < reach->first[variable->vertex + 1] && count < MAX_TARGETS; e++) {
			uint32_t at = reach->vertices.items[reach->edges.items[e].to];
			if (at != GM_NO_VERTEX &&
			        !gm_map_find(sought, reach->graph->vertices.items[at].address))
				ret_targets[count++] = at;
		}
	}
	return count;
}

static bool note_sought(const struct gm_holders *graph, struct gm_map *sought,
        const uint32_t *targets, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!gm_map_put(sought, graph->vertices.items[targets[i]].address, NULL))
			return false;
	return true;
}

/* True: the graph has references that it had not. */
static struct gm_error *settle(struct gm_holders *graph, const uint32_t *targets, size_t count,
        struct gm_map *sought, bool *ret_settled)
{
	struct gm_strays strays;
	bool rebuild; /* never: where anything is sought, the graph has all objects (keep_all()) */
	*ret_settled = gm_graph_refer_instances(graph, targets, count, &rebuild) > 0;
	if (*ret_settled)
		return NULL;
	if (!note_sought(graph, sought, targets, count))
		return &gm_error_no_memory;
	gm_try(gm_graph_find_strays(graph, targets, count, 0, 0, &strays));
	*ret_settled = gm_graph_settle(graph, targets, count, &strays, &rebuild) > 0;
	gm_strays_deinit(&strays);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}

/* Objects that refer to nothing may have references in C++: then all are needed, whose vertices have other numbers. */
static struct gm_error *keep_all(
        struct gm_holders *graph, const struct gm_reach_options *options, struct gm_reach **reach)
{
	gm_reach_destroy(*reach);
	*reach = NULL;
	gm_try(gm_graph_keep_all(graph));
	return gm_reach_create(graph, options, reach);
}

struct gm_error *gm_reach_create_settled(struct gm_holders *graph,
        const struct gm_reach_options *options, struct gm_reach **ret_reach)
{
	_cleanup_free_ uint32_t *targets = malloc(MAX_TARGETS * sizeof(*targets));
	struct gm_map sought = {0};
	struct gm_reach *reach;
	struct gm_error *error = NULL;
	bool settled = true;
	if (!targets)
		return &gm_error_no_memory;
	gm_try(gm_reach_create(graph, options, &reach));
	if (!graph->keep_all && find_targets(reach, &sought, targets) > 0)
		gm_try(keep_all(graph, options, &reach));
	for (unsigned round = 0; round < MAX_ROUNDS && settled && !error; round++) {
		size_t count = find_targets(reach, &sought, targets);
		settled = false;
		if (count)
			error = settle(graph, targets, count, &sought, &settled);
		if (error || settled) {
			gm_reach_destroy(gm_take(reach));
			if (!error)
				error = gm_reach_create(graph, options, &reach);
		}
	}
	gm_map_deinit(&sought);
	*ret_reach = error ? NULL : reach;
	return error;
}
