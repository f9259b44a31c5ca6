/* The steps of a chain, for the answer. Internal to core/holders. */
#ifndef GM_HOLDERS_DESCRIBE_H
#define GM_HOLDERS_DESCRIBE_H

#include "holders/graph/graph.h"
#include "holders/unattributed/unattributed.h"

/* The steps of a chain; `unattributed` (may be NULL) is what refers to its first vertex. False: no
 * memory. */
bool gm_graph_describe(struct gm_holders *graph, const struct gm_chain *chain, uint32_t storage,
        const struct gm_unattributed *unattributed, struct gm_holder *ret_holder);

#endif
