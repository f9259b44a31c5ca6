/*
 * The chains of a block: from each reference to one of its own objects (storage, tensor, wrapper)
 * outwards. An object with a single holder is followed up to an object with several holders, and
 * each of these gives a chain. From there, the nearest root is enough.
 */
#include "holders/search/chains.h"

#include "holders/search/finding.h"
#include "holders/graph/graph.h"
#include "holders/search/roots.h"

#include <stdlib.h>

enum { MAX_FOLLOW = 64 };

void gm_finding_add_chain(struct gm_finding *finding, const uint32_t *edges, size_t edge_count,
        const struct gm_unattributed *unattributed)
{
	struct gm_holders *graph = finding->graph;
	GM_ARRAY(uint32_t) all = {0};
	uint32_t top = graph->edges.items[edges[0]].from, at = top;
	bool rooted = gm_graph_is_root(&graph->vertices.items[top]);
	const struct gm_mark *mark = gm_finding_mark_at(finding, top);
	size_t length = 0;

	if (!rooted && !unattributed && mark && mark->from_root != GM_NO_DISTANCE) {
		/* follow to the nearest root, then reverse */
		while (!gm_graph_is_root(&graph->vertices.items[at]) &&
		        length++ < GM_MAX_CHAIN_LENGTH) {
			mark = gm_finding_mark_at(finding, at);
			if (!gm_array_push(&all, mark->root_edge))
				finding->no_memory = true;
			at = graph->edges.items[mark->root_edge].from;
		}
		for (size_t i = 0; i < all.count / 2; i++) {
			uint32_t swapped = all.items[i];
			all.items[i] = all.items[all.count - 1 - i];
			all.items[all.count - 1 - i] = swapped;
		}
		rooted = true;
	}
	for (size_t i = 0; i < edge_count; i++)
		if (!gm_array_push(&all, edges[i]))
			finding->no_memory = true;
	at = graph->edges.items[edges[edge_count - 1]].to;
	while ((mark = gm_finding_mark_at(finding, at)) && mark->towards != GM_NO_EDGE &&
	        length++ < GM_MAX_CHAIN_LENGTH) {
		if (!gm_array_push(&all, mark->towards))
			finding->no_memory = true;
		at = graph->edges.items[mark->towards].to;
	}
	/* the same first and last references mean the same chain; each unattributed reference is
	 * its own chain */
	uint64_t key = ((uint64_t)all.items[0] << 32 | edges[edge_count - 1]) + 1;
	bool is_new = true;
	struct gm_chain chain = {.edges = all.items, .count = all.count, .rooted = rooted};
	if (finding->no_memory ||
	        (!unattributed && !gm_map_put(&finding->reported, key, &is_new))) {
		finding->no_memory = true;
		free(all.items);
	} else if (!is_new || finding->chains.count >= GM_MAX_MARKED ||
	           !gm_array_push(&finding->chains, chain) ||
	           !gm_array_push(&finding->chain_unattributed, unattributed)) {
		free(all.items);
	}
}

static bool contains_vertex(struct gm_finding *finding, uint32_t start, uint32_t wanted)
{
	/* does the shortest path from a root to `start` contain `wanted`? */
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < GM_MAX_CHAIN_LENGTH; i++) {
		if (start == wanted)
			return true;
		const struct gm_mark *mark = gm_finding_mark_at(finding, start);
		if (!mark || mark->root_edge == GM_NO_EDGE)
			return false;
		start = graph->edges.items[mark->root_edge].from;
	}
	return true;
}

/* Does the edge to `top` come from a root by a path that does not contain `top` itself? */
static bool is_branch(struct gm_finding *finding, uint32_t top, uint32_t e)
{
	const struct gm_edge *edge = &finding->graph->edges.items[e];
	const struct gm_mark *mark = gm_finding_mark_at(finding, edge->from);
	return mark && mark->from_root != GM_NO_DISTANCE && !mark->own &&
	       !contains_vertex(finding, edge->from, top);
}

static uint32_t nearest_branch(struct gm_finding *finding, uint32_t top)
{
	struct gm_holders *graph = finding->graph;
	const struct gm_vertex *vertex = &graph->vertices.items[top];
	uint32_t nearest = GM_NO_EDGE, least = GM_NO_DISTANCE;
	for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		const struct gm_mark *mark = gm_finding_mark_at(finding, edge->from);
		if (!mark || mark->from_root == GM_NO_DISTANCE ||
		        mark->from_root + gm_edge_length(edge) >= least ||
		        !is_branch(finding, top, e))
			continue;
		nearest = e;
		least = mark->from_root + gm_edge_length(edge);
	}
	return nearest;
}

/* All holders of the object that refers to one of the block's own objects by the edge `direct`. */
static void report_referrer(struct gm_finding *finding, uint32_t direct)
{
	struct gm_holders *graph = finding->graph;
	uint32_t edges[MAX_FOLLOW + 1];
	size_t start = MAX_FOLLOW;
	edges[start] = direct;
	uint32_t top = graph->edges.items[direct].from;
	/* only one holder: continue with the holders of that one */
	for (;;) {
		const struct gm_vertex *vertex = &graph->vertices.items[top];
		if (gm_graph_is_root(vertex)) {
			gm_finding_add_chain(finding, edges + start, MAX_FOLLOW + 1 - start, NULL);
			return;
		}
		if (vertex->count != 1 || start == 1)
			break;
		const struct gm_edge *only = &graph->edges.items[vertex->first];
		const struct gm_mark *mark = gm_finding_mark_at(finding, only->from);
		bool own_dict = only->kind == GM_REF_PYTHON && (only->extra & GM_LINK_IS_DICT);
		if (!mark || mark->own || (mark->from_root == GM_NO_DISTANCE && !own_dict))
			break;
		edges[--start] = vertex->first;
		top = only->from;
	}
	size_t before = finding->chains.count;
	const struct gm_vertex *vertex = &graph->vertices.items[top];
	/* tensors and nodes have holders all over the autograd graph: only the nearest root is
	 * shown */
	bool branches = vertex->kind == GM_VERTEX_PYTHON && !(vertex->flags & GM_VERTEX_WRAPPER);
	/* of several chains from one root, the shortest is shown */
	uint32_t nearest = branches ? nearest_branch(finding, top) : (uint32_t)GM_NO_EDGE;
	if (nearest != GM_NO_EDGE) {
		edges[start - 1] = nearest;
		gm_finding_add_chain(finding, edges + start - 1, MAX_FOLLOW + 2 - start, NULL);
	}
	for (uint32_t e = vertex->first; branches && e < vertex->first + vertex->count; e++) {
		if (e == nearest || !is_branch(finding, top, e))
			continue;
		edges[start - 1] = e;
		gm_finding_add_chain(finding, edges + start - 1, MAX_FOLLOW + 2 - start, NULL);
	}
	if (finding->chains.count == before)
		gm_finding_add_chain(finding, edges + start, MAX_FOLLOW + 1 - start, NULL);
}

void gm_finding_find_chains(struct gm_finding *finding)
{
	struct gm_holders *graph = finding->graph;
	for (size_t i = 0; i < finding->marks.count && !finding->no_memory; i++) {
		struct gm_mark mark = finding->marks.items[i];
		const struct gm_vertex *vertex = &graph->vertices.items[mark.vertex];
		if (!mark.own)
			continue;
		for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
			const struct gm_edge *edge = &graph->edges.items[e];
			const struct gm_mark *from = gm_finding_mark_at(finding, edge->from);
			if (!from || from->own || edge->kind == GM_REF_WRAPPED)
				continue;
			report_referrer(finding, e);
		}
	}
}

/* What counts as one root: a variable (a frame and a module have many), or everything that C++
 * holds at one place. */
uint64_t gm_finding_root_key(const struct gm_holders *graph, uint32_t edge)
{
	uint32_t from = graph->edges.items[edge].from;
	return graph->vertices.items[from].kind == GM_VERTEX_NATIVE ? (uint64_t)from << 32 | 1
	                                                            : (uint64_t)edge + 1;
}

static void note_reported(struct gm_finding *finding, struct gm_map *reported)
{
	for (size_t i = 0; i < finding->chains.count; i++) {
		const struct gm_chain *chain = &finding->chains.items[i];
		if (chain->rooted && chain->count > 0 &&
		        !gm_map_put(reported, gm_finding_root_key(finding->graph, chain->edges[0]),
		                NULL))
			finding->no_memory = true;
	}
}

void gm_finding_find_further_roots(struct gm_finding *finding)
{
	struct gm_holders *graph = finding->graph;
	struct gm_map reported = {0};
	note_reported(finding, &reported);
	for (size_t i = 0; i < finding->marks.count && !finding->no_memory; i++) {
		const struct gm_vertex *root =
		        &graph->vertices.items[finding->marks.items[i].vertex];
		if (!gm_graph_is_root(root))
			continue;
		for (uint32_t k = finding->forward.first[i]; k < finding->forward.first[i + 1];
		        k++) {
			uint32_t e = finding->forward.edges[k];
			if (gm_map_find(&reported, gm_finding_root_key(graph, e)))
				continue;
			gm_finding_add_chain(finding, &e, 1, NULL);
			if (!gm_map_put(&reported, gm_finding_root_key(graph, e), NULL))
				finding->no_memory = true;
		}
	}
	gm_map_deinit(&reported);
}
