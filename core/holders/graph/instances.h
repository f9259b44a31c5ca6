/* Instances of a class, as what holds it. Internal to core/holders. */
#ifndef GM_HOLDERS_INSTANCES_H
#define GM_HOLDERS_INSTANCES_H

#include "holders/graph/graph.h"

/*
 * All instances of those of `targets` that are classes become holders of their class. Returns how
 * many references that adds. `ret_rebuild`: there are such classes, but their instances were left
 * out of the graph: it must be built with all objects first (gm_graph_keep_all()), and nothing
 * was added.
 */
size_t gm_graph_refer_instances(
        struct gm_holders *graph, const uint32_t *targets, size_t count, bool *ret_rebuild);

#endif
