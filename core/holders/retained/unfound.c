/*
 * References that are missing in `retained`. If counts show that there are more than the graph has,
 * memory is searched for them as in who-holds (find_unattributed.c, owners.c, promote.c), for
 * all objects that lead to a block at once. In most programs none are missing, and nothing is
 * searched. Each round reads all memory a few times. An object is searched for once: a second
 * search would not find more.
 */
#include "holders/retained/unfound.h"

#include "base/cleanup.h"
#include "holders/unattributed/unattributed.h"
#include "holders/retained/reach.h"
#include "holders/build.h"
#include "holders/graph/instances.h"
#include "holders/retained/reach_build.h"
#include "holders/unattributed/find_unattributed.h"
#include "holders/unattributed/promote.h"

enum {
	MAX_TARGETS = 4096,
	MAX_ROUNDS = 3, /* what was found has holders of its own */
};

/* The vertices whose counts are higher than the references that were found, at most MAX_TARGETS,
 * without those in `sought`; sorted by address. */
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

/* True: references were added to the graph. */
static struct gm_error *promote(struct gm_holders *graph, const uint32_t *targets, size_t count,
        struct gm_map *sought, bool *ret_promoted)
{
	struct gm_unattributed_list unattributed_list;
	bool rebuild; /* cannot happen: a graph that is searched has all objects (keep_all()) */
	*ret_promoted = gm_graph_refer_instances(graph, targets, count, &rebuild) > 0;
	if (*ret_promoted)
		return NULL;
	if (!note_sought(graph, sought, targets, count))
		return &gm_error_no_memory;
	gm_try(gm_graph_find_unattributed(graph, targets, count, 0, 0, &unattributed_list));
	*ret_promoted = gm_graph_promote_candidates(
	                        graph, targets, count, &unattributed_list, &rebuild) > 0;
	gm_unattributed_list_deinit(&unattributed_list);
	return graph->no_memory ? &gm_error_no_memory : NULL;
}

/* Objects without references of their own may have references from C++. Then the graph needs all
 * objects, with new vertex numbers. */
static struct gm_error *keep_all(
        struct gm_holders *graph, const struct gm_reach_options *options, struct gm_reach **reach)
{
	gm_reach_destroy(*reach);
	*reach = NULL;
	gm_try(gm_graph_keep_all(graph));
	return gm_reach_create(graph, options, reach);
}

struct gm_error *gm_reach_create_promoted(struct gm_holders *graph,
        const struct gm_reach_options *options, struct gm_reach **ret_reach)
{
	_cleanup_free_ uint32_t *targets = malloc(MAX_TARGETS * sizeof(*targets));
	struct gm_map sought = {0};
	struct gm_reach *reach;
	struct gm_error *error = NULL;
	bool promoted = true;
	if (!targets)
		return &gm_error_no_memory;
	gm_try(gm_reach_create(graph, options, &reach));
	if (!graph->keep_all && find_targets(reach, &sought, targets) > 0)
		gm_try(keep_all(graph, options, &reach));
	for (unsigned round = 0; round < MAX_ROUNDS && promoted && !error; round++) {
		size_t count = find_targets(reach, &sought, targets);
		promoted = false;
		if (count)
			error = promote(graph, targets, count, &sought, &promoted);
		if (error || promoted) {
			gm_reach_destroy(gm_take(reach));
			if (!error)
				error = gm_reach_create(graph, options, &reach);
		}
	}
	gm_map_deinit(&sought);
	*ret_reach = error ? NULL : reach;
	return error;
}
