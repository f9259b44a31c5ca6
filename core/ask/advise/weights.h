/* Which blocks may be made of a parameter: a gradient before it is added, a copy in half precision.
 * Internal to core/ask. */
#ifndef GM_ASK_ADVISE_WEIGHTS_H
#define GM_ASK_ADVISE_WEIGHTS_H

#include "ask/advise/facts.h"
#include "base/array.h"

struct gm_weights {
	GM_ARRAY(uint64_t) shapes; /* hashes of the parameters' shapes, from both ends; sorted */
	GM_ARRAY(uint64_t) bytes;  /* as asked for; sorted */
};

struct gm_error *gm_weights_init(struct gm_weights *weights, const struct gm_advise_facts *facts);
void gm_weights_deinit(struct gm_weights *weights);
/* Has the block the shape of a parameter, or of its transpose? Where shapes were not recorded: the
 * bytes of one, or half of them. */
bool gm_weights_has(
        const struct gm_weights *weights, const struct gm_advise_facts *facts, uint32_t block);

#endif
