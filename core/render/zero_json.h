/* How optimizers' state is sharded, as a value in another one's JSON. */
#ifndef GM_RENDER_ZERO_JSON_H
#define GM_RENDER_ZERO_JSON_H

#include <jansson.h>

#include "ask/zero/facts.h"

json_t *gm_json_zero(const struct gm_zero_now *now);

#endif
