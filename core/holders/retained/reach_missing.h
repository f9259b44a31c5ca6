/* What no variable reaches, or not alone: references that are missing, and garbage. Internal to
 * core/holders. */
#ifndef GM_HOLDERS_REACH_MISSING_H
#define GM_HOLDERS_REACH_MISSING_H

#include "holders/retained/reach.h"

/* Is a vertex's reference count higher than what was found, but for `without`? Where the count is
 * not known: was nothing found? */
bool gm_reach_lacks_references(struct gm_reach *reach, uint32_t vertex, uint64_t without);
/* The edges must be sorted by `from`; the new ones stand after them. */
void gm_reach_add_missing(struct gm_reach *reach);

#endif
