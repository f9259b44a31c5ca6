/* Reference counts, and how many references were found. Internal to core/holders. */
#ifndef GM_HOLDERS_COUNTS_H
#define GM_HOLDERS_COUNTS_H

#include "holders/graph/graph.h"

/* References to a vertex that the graph has. */
uint64_t gm_graph_references(const struct gm_holders *graph, uint32_t vertex);
/* The reference count of an object; false where it has none. */
bool gm_graph_refcount(struct gm_holders *graph, uint32_t vertex, uint64_t *ret_count);
/* Does a reference stand on a guess: a word of an object whose fields are not known, or one that is
 * inferred? */
bool gm_edge_is_guess(const struct gm_holders *graph, const struct gm_edge *edge);
/* For the references to a vertex, those that stand on a guess: these may own nothing. */
uint64_t gm_graph_guessed_references(const struct gm_holders *graph, uint32_t vertex);

#endif
