#include "sim/cuda/graph_nodes.h"

#include <stdlib.h>

#include "sim/kernels/captured.h"

struct CUgraph_st *gm_sim_graph_create(void)
{
	struct CUgraph_st *graph = calloc(1, sizeof(*graph));
	if (graph)
		graph->magic = GM_SIM_GRAPH;
	return graph;
}

bool gm_sim_graph_add(struct CUgraph_st *graph, const struct gm_sim_node *node)
{
	if (graph->count == graph->capacity) {
		size_t capacity = graph->capacity ? graph->capacity * 2 : 64;
		struct gm_sim_node *nodes = reallocarray(graph->nodes, capacity, sizeof(*nodes));
		if (!nodes)
			return false;
		graph->nodes = nodes;
		graph->capacity = capacity;
	}
	graph->nodes[graph->count++] = *node;
	return true;
}

void gm_sim_graph_free(struct CUgraph_st *graph)
{
	graph->magic = 0;
	for (size_t i = 0; i < graph->count; i++)
		gm_sim_kept_free(graph->nodes[i].kept);
	free(graph->nodes);
	free(graph);
}
