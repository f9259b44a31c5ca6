/*
 * Names of the things in a chain, asked of the image again: only chains that are told need them.
 * Internal to core/holders.
 */
#ifndef GM_HOLDERS_NAMES_H
#define GM_HOLDERS_NAMES_H

#include "holders/graph/graph.h"

/* How a Python object refers to another: the edge's kind, name and index. */
struct gm_link {
	enum gm_edge_kind kind;
	char *name; /* owned; NULL: none */
	int64_t index;
};

/* The link behind an edge of kind GM_REF_PYTHON; false where it is gone. */
bool gm_link_read(struct gm_holders *graph, const struct gm_edge *edge, struct gm_link *ret_link);

/* What is at the end of a named field ("__name__") of a Python object; 0: no such field. */
uint64_t gm_field_target(struct gm_holders *graph, uint64_t object, const char *field);
/* "train" for a function, generator, code or frame object; NULL: unknown. Caller frees. */
char *gm_function_name(struct gm_holders *graph, uint64_t object);
/* The file of a code object, or of what has one. Caller frees. */
char *gm_function_file(struct gm_holders *graph, uint64_t object);
/* Name of a function's free variable by its place in __closure__. Caller frees. */
char *gm_closure_name(struct gm_holders *graph, uint64_t function, int64_t index);
/* "Linear": a class's own name where the object is a class, else its class's; never NULL. */
const char *gm_type_text(struct gm_holders *graph, uint64_t object);

/* The last part of a path. */
const char *gm_base_name(const char *path);

#endif
