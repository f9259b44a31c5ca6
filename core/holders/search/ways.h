/* In how many ways a root keeps a block. Internal to core/holders. */
#ifndef GM_HOLDERS_WAYS_H
#define GM_HOLDERS_WAYS_H

#include "holders/search/finding.h"

/* For each mark, in how many ways it leads to the block. The caller frees; NULL: no memory. */
uint32_t *gm_finding_count_ways(struct gm_finding *finding);

#endif
