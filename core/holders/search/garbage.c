#include "holders/search/garbage.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/collect.h"
#include "holders/search/roots.h"

enum { MOST_STEPS = 24 }; /* in front of a chain */

void gm_finding_collect(struct gm_finding *finding)
{
	size_t total = finding->marks.count, count = 0;
	_cleanup_free_ uint32_t *vertices = malloc((total + 1) * sizeof(*vertices));
	_cleanup_free_ bool *freed = calloc(total + 1, 1);
	finding->collected = calloc(total + 1, 1);
	if (!vertices || !freed || !finding->collected) {
		finding->no_memory = true;
		return;
	}
	for (size_t i = 0; i < total; i++)
		if (finding->marks.items[i].from_root == GM_NO_DISTANCE)
			vertices[count++] = finding->marks.items[i].vertex;
	if (count > 0 && !gm_graph_collect(finding->graph, vertices, count, freed))
		finding->no_memory = true;
	for (size_t i = 0; i < count; i++)
		finding->collected[gm_finding_mark_at(finding, vertices[i]) -
		                   finding->marks.items] = freed[i];
}

static bool is_on(const struct gm_holders *graph, const uint32_t *edges, size_t count, uint32_t at)
{
	for (size_t i = 0; i < count; i++) {
		const struct gm_edge *edge = &graph->edges.items[edges[i]];
		if (edge->from == at || edge->to == at)
			return true;
	}
	return false;
}

/* The reference to a chain's first object that explains most, of an object that is not on the chain
 * yet; GM_NO_EDGE: there is none, and the cycle closes here. */
static uint32_t best_before(
        struct gm_finding *finding, const uint32_t *edges, size_t count, uint32_t top)
{
	const struct gm_holders *graph = finding->graph;
	const struct gm_vertex *vertex = &graph->vertices.items[top];
	uint32_t best = GM_NO_EDGE;
	uint64_t least = UINT64_MAX;
	for (uint32_t e = vertex->first; e < vertex->first + vertex->count; e++) {
		const struct gm_edge *edge = &graph->edges.items[e];
		uint64_t length = (uint64_t)gm_edge_length(edge) << 32 |
		                  (uint32_t)edge->kind << 24 | edge->extra;
		if (length >= least || !gm_finding_mark_at(finding, edge->from) ||
		        is_on(graph, edges, count, edge->from))
			continue;
		least = length;
		best = e;
	}
	return best;
}

static void extend(struct gm_finding *finding, struct gm_chain *chain)
{
	size_t room = MOST_STEPS;
	uint32_t *edges = malloc((chain->count + MOST_STEPS) * sizeof(*edges));
	if (!edges) {
		finding->no_memory = true;
		return;
	}
	memcpy(edges + MOST_STEPS, chain->edges, chain->count * sizeof(*edges));
	while (room > 0) {
		const uint32_t *first = edges + room;
		uint32_t top = finding->graph->edges.items[*first].from;
		uint32_t best = best_before(finding, first, chain->count + MOST_STEPS - room, top);
		if (best == GM_NO_EDGE)
			break;
		edges[--room] = best;
	}
	chain->count += MOST_STEPS - room;
	memmove(edges, edges + room, chain->count * sizeof(*edges));
	free(chain->edges);
	chain->edges = edges;
}

void gm_finding_judge_garbage(struct gm_finding *finding, struct gm_chain *chain)
{
	chain->garbage = !chain->rooted && !finding->islands_held;
	if (!chain->garbage || chain->count == 0)
		return;
	uint32_t top = finding->graph->edges.items[chain->edges[0]].from;
	const struct gm_mark *mark = gm_finding_mark_at(finding, top);
	chain->stays = mark && !finding->collected[mark - finding->marks.items];
	extend(finding, chain);
}
