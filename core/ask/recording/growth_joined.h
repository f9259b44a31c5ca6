/* Lines whose one block grows. Internal to core/ask. */
#ifndef GM_ASK_GROWTH_JOINED_H
#define GM_ASK_GROWTH_JOINED_H

#include "ask/recording/growth.h"
#include "ask/recording/leak.h"

/* The lines that join, in `leaks`. */
struct gm_error *gm_growth_find_joined(struct gm_growth *growth, const struct gm_level *level,
        uint32_t level_index, struct gm_leaks *leaks);

#endif
