/* DistributedDataParallel's Reducer. Internal to core/holders. */
#ifndef GM_HOLDERS_REDUCER_H
#define GM_HOLDERS_REDUCER_H

#include "holders/graph/graph.h"

/* What DistributedDataParallel keeps in C++, as references of its Python object. */
void gm_graph_refer_reducer(struct gm_holders *graph, uint32_t from, uint64_t instance);

#endif
