/* Nodes of the autograd graph. Internal to core/holders. */
#ifndef GM_HOLDERS_NODES_H
#define GM_HOLDERS_NODES_H

#include "holders/graph/graph.h"

/* What a node refers to. */
void gm_graph_refer_node(struct gm_holders *graph, uint32_t number, const struct gm_node *node);
/* The tensor of a torch._C._autograd.SavedTensor, as a reference of that object. */
void gm_graph_refer_saved_tensor(struct gm_holders *graph, uint32_t from, uint64_t instance);

#endif
