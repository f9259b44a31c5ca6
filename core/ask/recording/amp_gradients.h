/* Which gradients were inf or NaN when GradScaler checked them. Internal to core/ask. */
#ifndef GM_ASK_AMP_GRADIENTS_H
#define GM_ASK_AMP_GRADIENTS_H

#include "ask/recording/amp_facts.h"

/* amp->scaling is there, its steps in their order. */
struct gm_error *gm_amp_find_not_finite(struct gm_amp *amp);

#endif
