/* Text and JSON of how optimizers' state is sharded in a process or a core. */
#ifndef GM_RENDER_ZERO_H
#define GM_RENDER_ZERO_H

#include "ask/zero.h"
#include "render/text.h"

struct gm_error *gm_render_zero_text(
        const struct gm_zero_now *now, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_zero_json(const struct gm_zero_now *now, FILE *out);

/* Words of them that other answers use too */
const char *gm_zero_part_text(enum gm_zero_part part);
const char *gm_zero_difference_text(enum gm_zero_difference difference);
/* What is sharded: an optimizer's class, or "FSDP2 (fully_shard) under the parameters" */
const char *gm_zero_sharding_text(const struct gm_zero_sharding *sharding);
/* That there is none, and which are known. `where`: "the process" */
void gm_put_zero_none(const char *where, FILE *out);

#endif
