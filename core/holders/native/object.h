/* A C++ object of PyTorch: its class, and the Python objects that it owns. Internal to
 * core/holders. */
#ifndef GM_HOLDERS_OBJECT_H
#define GM_HOLDERS_OBJECT_H

#include "holders/graph/graph.h"

/* Is the first word of this object a class's vtable? Its name, or NULL. */
const struct gm_class *gm_graph_class_at(struct gm_holders *graph, uint64_t object);
/* A reference to a Python object that a C++ object owns, read from `word`. */
void gm_graph_refer_python(
        struct gm_holders *graph, uint32_t from, uint64_t word, enum gm_reference kind);
void gm_graph_refer_python_by(struct gm_holders *graph, uint32_t from, uint64_t word,
        enum gm_reference kind, uint32_t extra);

#endif
