/* What each edge is to a user. Internal to core/holders. */
#ifndef GM_HOLDERS_PARTS_H
#define GM_HOLDERS_PARTS_H

#include "holders/retained/reach.h"

/* Names what edges are. */
void gm_reach_name_parts(struct gm_reach *reach);
/* The class of an autograd node, or of the context of an autograd.Function, in reach->strings:
 * "MmBackward0". 0: not known. */
uint32_t gm_reach_node_name(struct gm_reach *reach, uint32_t vertex);

#endif
