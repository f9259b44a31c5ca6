/* A graph as a list of what was put on its streams. */
#ifndef GM_SIM_GRAPH_NODES_H
#define GM_SIM_GRAPH_NODES_H

#include "sim/cuda/sim.h"

#define GM_SIM_GRAPH UINT64_C(0x0068706172677347)

struct CUgraph_st {
	uint64_t magic;
	struct gm_sim_node *nodes;
	size_t count, capacity;
};

struct CUgraph_st *gm_sim_graph_create(void);
/* What the node has is then the graph's. */
bool gm_sim_graph_add(struct CUgraph_st *graph, const struct gm_sim_node *node);
void gm_sim_graph_free(struct CUgraph_st *graph);

/* The nodes of a graph as they were when it was instantiated; a graph that launches it has them
 * too. */
struct gm_sim_part {
	_Atomic unsigned references;
	size_t count;
	struct gm_sim_node nodes[];
};

struct gm_sim_part *gm_sim_part_make(const struct CUgraph_st *graph);
struct gm_sim_part *gm_sim_part_again(struct gm_sim_part *part);
void gm_sim_part_free(struct gm_sim_part *part);
/* Frees what the node has. */
void gm_sim_node_free(const struct gm_sim_node *node);

#endif
