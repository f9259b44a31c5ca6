/* Python's side of the graph. Internal to core/holders. */
#ifndef GM_HOLDERS_PYTHON_H
#define GM_HOLDERS_PYTHON_H

#include "holders/graph/graph.h"
#include "holders/heap/scan.h"

/*
 * Python's objects. The first fills `objects`, touches nothing else of the graph and may run beside
 * gm_graph_scan(); the second makes them vertices, before any other; the third adds what they refer
 * to, frames and modules.
 */
struct gm_error *gm_graph_find_objects(struct gm_holders *graph);
/* Both in one pass, with what objects refer to; where that does not find the objects, `sweep` is
 * NULL after it. */
struct gm_error *gm_graph_sweep(struct gm_holders *graph, struct gm_scan_result *ret_hits);
struct gm_error *gm_graph_add_objects(struct gm_holders *graph);
struct gm_error *gm_graph_add_python(struct gm_holders *graph);

#endif
