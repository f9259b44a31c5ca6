/* What is listed of a search. Internal to core/holders. */
#ifndef GM_HOLDERS_LIST_H
#define GM_HOLDERS_LIST_H

#include "holders/search/finding.h"

/* The chains, described, in order, within bounds. */
void gm_finding_list_holders(struct gm_finding *finding);

#endif
