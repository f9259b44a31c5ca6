/* Fields that know an object without owning it. Internal to core/holders. */
#ifndef GM_HOLDERS_WEAK_H
#define GM_HOLDERS_WEAK_H

#include "holders/graph/graph.h"
#include "holders/heap/scan.h"

/* Is the word a field that points at the vertex and does not own it? */
bool gm_graph_is_weak_field(struct gm_holders *graph, const struct gm_hit *hit, uint32_t vertex);

#endif
