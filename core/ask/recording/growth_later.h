/* What follows the loops that were examined: growth_later.c. Internal to core/ask. */
#ifndef GM_ASK_GROWTH_LATER_H
#define GM_ASK_GROWTH_LATER_H

#include "ask/recording/growth_levels.h"
#include "ask/recording/leak.h"

/* Fills in the fields `later...`. False: no memory. */
bool gm_growth_look_later(
        struct gm_growth *growth, const struct gm_levels *levels, struct gm_leaks *leaks);

#endif
