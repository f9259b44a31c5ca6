/* The chains of a block. Internal to core/holders. */
#ifndef GM_HOLDERS_CHAINS_H
#define GM_HOLDERS_CHAINS_H

#include "holders/search/finding.h"

/* The same for references of one root. */
uint64_t gm_finding_root_key(const struct gm_holders *graph, uint32_t edge);
/* A chain for each reference of a root that leads to the block and that no chain told begins
 * with. */
void gm_finding_find_further_roots(struct gm_finding *finding);
/* Chains.c */
void gm_finding_find_chains(struct gm_finding *finding);
/* Puts together root ... -> `edges` (root first) -> ... the storage; `unattributed` (may be NULL)
 * refers to the first. */
void gm_finding_add_chain(struct gm_finding *finding, const uint32_t *edges, size_t edge_count,
        const struct gm_unattributed *unattributed);

#endif
