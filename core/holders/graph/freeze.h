/* The graph's edges in the order of what they point to. Internal to core/holders. */
#ifndef GM_HOLDERS_FREEZE_H
#define GM_HOLDERS_FREEZE_H

#include "holders/graph/graph.h"

/* Sorts the edges; after some were added it is to be done again, and they get other numbers. False:
 * no memory. */
bool gm_graph_freeze(struct gm_holders *graph);

#endif
