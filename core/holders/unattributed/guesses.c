/*
 * A word of a C type's own part that points at an object may own it, or be an old one: what is not set when the object is made has
 * what lay there before. Where references of known fields are as many as the object counts, there is none left for such a
 * word.
 */
#include "holders/graph/graph.h"

/* The edges to one vertex: how many are to be left out. */
static size_t surplus(struct gm_holders *graph, const struct gm_edge *edges, size_t count)
{
	uint64_t refcount;
	size_t guesses = 0;
	for (size_t i = 0; i < count; i++)
		guesses += gm_edge_is_guess(graph, &edges[i]);
	return guesses > 0 && guesses < count && gm_graph_refcount(graph, edges[0].to, &refcount) &&
	                       count - guesses >= refcount
	               ? guesses
	               : 0;
}

void gm_graph_drop_guesses(struct gm_holders *graph)
{
	struct gm_edge *edges = graph->edges.items;
	size_t kept = 0;
	for (size_t v = 0; v < graph->vertices.count; v++) {
		struct gm_vertex *vertex = &graph->vertices.items[v];
		size_t first = vertex->first, count = vertex->count;
		bool drop = count > 0 && surplus(graph, edges + first, count) > 0;
		vertex->first = (uint32_t)kept;
		for (size_t i = first; i < first + count; i++) {
			if (drop && gm_edge_is_guess(graph, &edges[i]))
				continue;
			if (kept != i)
				edges[kept] = edges[i];
			kept++;
		}
		vertex->count = (uint32_t)(kept - vertex->first);
	}
	graph->edges.count = kept;
}
