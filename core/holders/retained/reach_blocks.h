/* The blocks that a reach is about, and the storages that refer to them. Internal to core/holders.
 */
#ifndef GM_HOLDERS_REACH_BLOCKS_H
#define GM_HOLDERS_REACH_BLOCKS_H

#include "holders/retained/reach.h"

/* `host`: storages in host memory, rather than blocks of the allocator. */
struct gm_error *gm_reach_add_blocks(struct gm_reach *reach, bool host);

#endif
