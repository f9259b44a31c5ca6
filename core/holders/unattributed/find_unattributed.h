/* The search for words that no typed field explains. Internal to core/holders. */
#ifndef GM_HOLDERS_FIND_UNATTRIBUTED_H
#define GM_HOLDERS_FIND_UNATTRIBUTED_H

#include "holders/unattributed/unattributed.h"

/* Looks through all writable memory for words that point at `targets`, or into the block. */
struct gm_error *gm_graph_find_unattributed(struct gm_holders *graph, const uint32_t *targets,
        size_t target_count, uint64_t block, uint64_t block_size,
        struct gm_unattributed_list *ret_unattributed);

#endif
