/* PyTorch's C++ objects and what they refer to. Internal to core/holders. */
#ifndef GM_HOLDERS_NATIVE_H
#define GM_HOLDERS_NATIVE_H

#include "holders/graph/graph.h"
#include "holders/heap/scan.h"
#include "torch/statics.h"

/* Storages, tensors, nodes and what they refer to, from the hits of gm_graph_scan(). */
struct gm_error *gm_graph_scan(struct gm_holders *graph, const struct gm_scan_visitor *visitor,
        struct gm_scan_result *ret_hits);
/* Makes known which classes the hits are of: not while another thread asks for one. */
void gm_graph_meet_classes(struct gm_holders *graph, const struct gm_hit *hits, size_t count);
struct gm_error *gm_graph_add_native(struct gm_holders *graph, const struct gm_scan_result *hits);
/* What a static variable of PyTorch's is, as an owner. NULL: no memory. */
struct gm_native_owner *gm_static_owner(enum gm_torch_static kind);

#endif
