/* Memory that is lent: by the owner of a storage's memory, or by a DLPack capsule. Internal to
 * core/holders. */
#ifndef GM_HOLDERS_LENDERS_H
#define GM_HOLDERS_LENDERS_H

#include "holders/graph/graph.h"

/* What keeps a storage's memory, where that is not its own; what DLPack's capsules hold. */
void gm_graph_refer_memory_owner(
        struct gm_holders *graph, uint32_t number, const struct gm_storage *storage);
/* Of those of `untracked` that are of one of these types, what they own. */
extern const char *const gm_graph_special_types[];
void gm_graph_refer_untracked(struct gm_holders *graph);

#endif
