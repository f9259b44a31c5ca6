/* What the ZeRO paper counts, and why a rank has more or less. */
#ifndef GM_ASK_ZERO_IDEAL_H
#define GM_ASK_ZERO_IDEAL_H

#include "ask/zero/facts.h"

/* Once all tensors of a sharding are counted. */
void gm_zero_ideal(struct gm_zero_sharding *sharding);
/* What no difference explains. */
int64_t gm_zero_unexplained(const struct gm_zero_term *term);

#endif
