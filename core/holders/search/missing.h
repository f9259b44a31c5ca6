/* References that were not found. Internal to core/holders. */
#ifndef GM_HOLDERS_MISSING_H
#define GM_HOLDERS_MISSING_H

#include "holders/search/finding.h"

/* Compares with the reference counts, and looks for what is missing. `ret_promoted`: what was found
 * became part of the graph, and the search is to begin again; not so the `last` time.
 * `ret_rebuild`: before that, the graph is to be built with all objects. */
struct gm_error *gm_finding_find_missing(struct gm_finding *finding, uint64_t block, uint64_t size,
        bool last, bool *ret_promoted, bool *ret_rebuild);

#endif
