/* Chains that begin with no root: garbage, and whether gc.collect() frees it. Internal to
 * core/holders. */
#ifndef GM_HOLDERS_GARBAGE_H
#define GM_HOLDERS_GARBAGE_H

#include "holders/search/finding.h"

/* Which marks gc.collect() frees: sets finding->collected. */
void gm_finding_collect(struct gm_finding *finding);
/* Is a chain garbage, does it stay, and by which objects: a chain of garbage gets more edges in
 * front, up to where its cycle closes. */
void gm_finding_judge_garbage(struct gm_finding *finding, struct gm_chain *chain);

#endif
