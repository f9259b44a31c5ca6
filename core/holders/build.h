/* Building the graph of references from the memory. Internal to core/holders. */
#ifndef GM_HOLDERS_BUILD_H
#define GM_HOLDERS_BUILD_H

#include "holders/graph/graph.h"

/* Builds the graph once more, with all objects. */
struct gm_error *gm_graph_keep_all(struct gm_holders *graph);

#endif
