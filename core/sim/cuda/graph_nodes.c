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

void gm_sim_node_free(const struct gm_sim_node *node)
{
	gm_sim_kept_free(node->kept);
	gm_sim_part_free(node->part);
}

void gm_sim_graph_free(struct CUgraph_st *graph)
{
	graph->magic = 0;
	for (size_t i = 0; i < graph->count; i++)
		gm_sim_node_free(&graph->nodes[i]);
	free(graph->nodes);
	free(graph);
}

struct gm_sim_part *gm_sim_part_make(const struct CUgraph_st *graph)
{
	struct gm_sim_part *part = calloc(1, sizeof(*part) + graph->count * sizeof(part->nodes[0]));
	if (!part)
		return NULL;
	part->references = 1;
	part->count = graph->count;
	for (size_t i = 0; i < graph->count; i++) {
		part->nodes[i] = graph->nodes[i];
		gm_sim_kept_again(part->nodes[i].kept);
		gm_sim_part_again(part->nodes[i].part);
	}
	return part;
}

struct gm_sim_part *gm_sim_part_again(struct gm_sim_part *part)
{
	if (part)
		atomic_fetch_add(&part->references, 1);
	return part;
}

void gm_sim_part_free(struct gm_sim_part *part)
{
	if (!part || atomic_fetch_sub(&part->references, 1) != 1)
		return;
	for (size_t i = 0; i < part->count; i++)
		gm_sim_node_free(&part->nodes[i]);
	free(part);
}
