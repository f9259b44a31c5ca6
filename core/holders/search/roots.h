/* What reaches the block, and from which roots. Internal to core/holders. */
#ifndef GM_HOLDERS_ROOTS_H
#define GM_HOLDERS_ROOTS_H

#include "holders/search/finding.h"

/* False: it was marked before, or there is no memory (`no_memory`). */
bool gm_finding_mark(struct gm_finding *finding, uint32_t vertex, uint32_t towards, bool own);
/* Marks everything that reaches what is marked. */
void gm_finding_mark_all(struct gm_finding *finding);
/* How far a reference is, as a user sees it. */
uint32_t gm_edge_length(const struct gm_edge *edge);
/* Each mark's nearest root. */
void gm_finding_find_roots(struct gm_finding *finding);

#endif
