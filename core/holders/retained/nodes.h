/* The tree of names under construction: a node for each step of a way to a block, with the bytes
 * and blocks below it. Internal to core/holders. */
#ifndef GM_HOLDERS_RETAINED_NODES_H
#define GM_HOLDERS_RETAINED_NODES_H

#include "holders/retained/builder.h"

/* Where the ways of what each vertex dominates continue. Without memory `no_memory` is set, here
 * and below. */
void gm_retained_place_vertices(struct gm_retained_builder *builder);
/* Counts the blocks of a device in the nodes on the ways to them. */
void gm_retained_add_blocks(struct gm_retained_builder *builder, int device);

#endif
