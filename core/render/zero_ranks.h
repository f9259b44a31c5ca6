/* Text and JSON of the same model on several ranks, side by side. */
#ifndef GM_RENDER_ZERO_RANKS_H
#define GM_RENDER_ZERO_RANKS_H

#include "ask/zero/ranks.h"
#include "render/text.h"

struct gm_error *gm_render_zero_ranks_text(
        const struct gm_zero_ranks *ranks, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_zero_ranks_json(const struct gm_zero_ranks *ranks, FILE *out);

#endif
