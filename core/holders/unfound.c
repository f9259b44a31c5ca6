/*
 * References that retained misses: where counts say that there are more than the graph has, memory is looked through for them, as
 * for who-holds (stray.c, owners.c, settle.c), for all objects that lead to a block at once. In most programs there are none, and
 * nothing is looked for: each round is a few readings of all memory.
 */
#include "base/cleanup.h"
#include "holders/reach.h"

enum {
	MAX_TARGETS = 4096,
	MAX_ROUNDS = 3, /* what was found has holders of its own */
};

/* The graph's vertices whose counts are higher than what was found, MAX_TARGETS at most. */
static size_t find_targets(const struct gm_reach *reach, uint32_t *ret_targets)
{
	size_t count = 0;
	for (size_t i = 0; i < reach->variables.count; i++) {
		const struct gm_variable *variable = &reach->variables.items[i];
		if (variable->kind != GM_VARIABLE_MISSING)
			continue;
		for (uint32_t e = reach->first[variable->vertex];
		        e < reach->first[variable->vertex + 1] && count < MAX_TARGETS; e++) {
			uint32_t at = reach->vertices.items[reach->edges.items[e].to];
			if (at != GM_NO_VERTEX)
				ret_targets[count++] = at;
		}
	}
	return count;
}

/* True: the graph has references that it had not. */
static struct gm_error *settle(
        struct gm_holders *graph, const uint32_t *targets, size_t count, bool *ret_settled)
{
	struct gm_strays strays;
	*ret_settled = gm_graph_refer_instances(graph, targets, count) > 0;
	if (*ret_settled)
		return NULL;
	gm_try(gm_graph_find_strays(graph, targets, count, 0, 0, &strays));
	*ret_settled = gm_graph_settle(graph, targets, count, &strays) > 0;
	gm_strays_deinit(&strays);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}

/* Objects that refer to nothing may have references in C++: then all are needed, whose vertices have other numbers. */
static struct gm_error *keep_all(
        struct gm_holders *graph, const struct gm_reach_options *options, struct gm_reach **reach)
{
	graph->wants_all = true;
	gm_reach_destroy(*reach);
	*reach = NULL;
	gm_try(gm_graph_keep_all(graph));
	return gm_reach_create(graph, options, reach);
}

struct gm_error *gm_reach_create_settled(struct gm_holders *graph,
        const struct gm_reach_options *options, struct gm_reach **ret_reach)
{
	_cleanup_free_ uint32_t *targets = malloc(MAX_TARGETS * sizeof(*targets));
	struct gm_reach *reach;
	bool settled = true;
	if (!targets)
		return &gm_error_no_memory;
	gm_try(gm_reach_create(graph, options, &reach));
	if (!graph->keep_all && find_targets(reach, targets) > 0)
		gm_try(keep_all(graph, options, &reach));
	for (unsigned round = 0; round < MAX_ROUNDS && settled; round++) {
		size_t count = find_targets(reach, targets);
		settled = false;
		struct gm_error *error = count ? settle(graph, targets, count, &settled) : NULL;
		if (error || settled) {
			gm_reach_destroy(reach);
			gm_try(error);
			gm_try(gm_reach_create(graph, options, &reach));
		}
	}
	*ret_reach = reach;
	return NULL;
}
