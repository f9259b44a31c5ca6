/* What each edge is to a user. Internal to core/holders. */
#ifndef GM_HOLDERS_PARTS_H
#define GM_HOLDERS_PARTS_H

#include "holders/retained/reach.h"

/* Names what edges are. */
void gm_reach_name_parts(struct gm_reach *reach);

#endif
