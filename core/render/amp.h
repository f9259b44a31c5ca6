/* Text and JSON of what mixed precision did. */
#ifndef GM_RENDER_AMP_H
#define GM_RENDER_AMP_H

#include "ask/amp.h"
#include "render/text.h"

struct gm_error *gm_render_amp_text(
        const struct gm_amp *amp, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_amp_json(const struct gm_amp *amp, FILE *out);

#endif
