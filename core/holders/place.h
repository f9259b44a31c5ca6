/* What an address is. Internal to core/holders. */
#ifndef GM_HOLDERS_PLACE_H
#define GM_HOLDERS_PLACE_H

#include "holders/graph/graph.h"

/* What is at an address; fills the block's address, size, device and the place. */
struct gm_error *gm_graph_place(
        struct gm_holders *graph, uint64_t address, struct gm_holders_answer *answer);
struct gm_error *gm_graph_blocks(struct gm_holders *graph);
const struct gm_block_record *gm_graph_block_at(struct gm_holders *graph, uint64_t address);

#endif
