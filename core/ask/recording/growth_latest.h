/* What the latest iteration has not replaced yet: see growth_latest.c. Internal to core/ask. */
#ifndef GM_ASK_GROWTH_LATEST_H
#define GM_ASK_GROWTH_LATEST_H

#include "ask/recording/growth.h"

/* Leaves out of the shares of a level those that its next iteration would release, and changes the
 * order of the others. False: no memory. */
bool gm_growth_leave_out_latest(struct gm_growth *growth, const struct gm_level *level,
        struct gm_share *shares, size_t *count);

/* Leaves out those of a window that moves: the last quarter of the iterations left them, and the
 * earlier ones released all that they allocated from the same stack. False: no memory. */
bool gm_growth_leave_out_windows(struct gm_growth *growth, const struct gm_level *level,
        struct gm_share *shares, size_t *count);

#endif
