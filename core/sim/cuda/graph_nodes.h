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
/* What the node keeps is then the graph's. */
bool gm_sim_graph_add(struct CUgraph_st *graph, const struct gm_sim_node *node);
void gm_sim_graph_free(struct CUgraph_st *graph);

#endif
