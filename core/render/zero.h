/* Text and JSON of how optimizers' state is sharded in a process or a core. */
#ifndef GM_RENDER_ZERO_H
#define GM_RENDER_ZERO_H

#include "ask/zero.h"
#include "render/text.h"

struct gm_error *gm_render_zero_text(
        const struct gm_zero_now *now, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_zero_json(const struct gm_zero_now *now, FILE *out);

#endif
