#include "holders/graph/counts.h"

bool gm_graph_refcount(struct gm_holders *graph, uint32_t number, uint64_t *ret_count)
{
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	switch (vertex->kind) {
	case GM_VERTEX_STORAGE:
		*ret_count = graph->storages.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_TENSOR:
		*ret_count = graph->tensors.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_NODE:
		*ret_count = graph->nodes.items[vertex->detail].refcount;
		return true;
	case GM_VERTEX_PYTHON:
		return graph->python &&
		       gm_python_refcount(graph->python, vertex->address, ret_count) &&
		       *ret_count != UINT64_MAX;
	default:
		return false;
	}
}

uint64_t gm_graph_references(const struct gm_holders *graph, uint32_t number)
{
	return graph->vertices.items[number].count;
}

bool gm_edge_is_guess(const struct gm_holders *graph, const struct gm_edge *edge)
{
	return (edge->kind == GM_REF_PYTHON && edge->extra == GM_EDGE_GUESS) ||
	       (edge->kind == GM_REF_NATIVE && graph->natives.items[edge->extra].inferred);
}

uint64_t gm_graph_guessed_references(const struct gm_holders *graph, uint32_t number)
{
	const struct gm_vertex *vertex = &graph->vertices.items[number];
	uint64_t count = 0;
	for (uint32_t i = vertex->first; i < vertex->first + vertex->count; i++) {
		const struct gm_edge *edge = &graph->edges.items[i];
		count += gm_edge_is_guess(graph, edge);
	}
	return count;
}
