/* Python objects that PyTorch's C++ objects own through small objects of their own. Internal to
 * core/holders. */
#ifndef GM_HOLDERS_HOOKS_H
#define GM_HOLDERS_HOOKS_H

#include "holders/graph/graph.h"

/* Hooks and metadata, in an object's own memory. */
void gm_graph_refer_hooks(struct gm_holders *graph, uint32_t from, uint64_t address, size_t size);

#endif
