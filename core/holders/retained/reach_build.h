/* Makes a reach (reach.h) from the graph. Internal to core/holders. */
#ifndef GM_HOLDERS_REACH_BUILD_H
#define GM_HOLDERS_REACH_BUILD_H

#include "holders/retained/reach.h"

struct gm_reach_options {
	bool host; /* storages in host memory, rather than blocks of the allocator */
};

struct gm_error *gm_reach_create(struct gm_holders *graph, const struct gm_reach_options *options,
        struct gm_reach **ret_reach);

#endif
