/* Whether what piles up at a line will end by itself: see growth_bounded.c. Internal to core/ask.
 */
#ifndef GM_ASK_GROWTH_BOUNDED_H
#define GM_ASK_GROWTH_BOUNDED_H

#include "ask/recording/growth.h"
#include "ask/recording/leak.h"

/* Judges the leaks of one level, from leaks->items[first] on: fills their `bound` and its figures.
 */
struct gm_error *gm_growth_judge_bounds(struct gm_growth *growth, const struct gm_level *level,
        struct gm_leaks *leaks, size_t first);

#endif
