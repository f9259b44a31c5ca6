/* What Python's cyclic garbage collector would free. Internal to core/holders. */
#ifndef GM_HOLDERS_COLLECT_H
#define GM_HOLDERS_COLLECT_H

#include "holders/graph/graph.h"

/*
 * Of vertices that no root leads to, which does one gc.collect() free? All references to them must
 * be in the graph, and all vertices that lead to them in `vertices`.
 *
 * The collector counts for each object the references that it is shown (tp_traverse). An object
 * with others besides stays, with all that it refers to. It is not shown what C++ holds: what a
 * node of the autograd graph saved, a tensor's .grad, a node's hooks. So a cycle through these is
 * never freed. What is shown of tensors and nodes: THPVariable_traverse() and
 * THPFunction_traverse() (torch/csrc/autograd/python_variable.cpp, python_function.cpp).
 *
 * `ret_freed` has room for `count`. False: no memory.
 */
bool gm_graph_collect(
        const struct gm_holders *graph, const uint32_t *vertices, size_t count, bool *ret_freed);

#endif
