/* phases as text and JSON. */
#ifndef GM_RENDER_PHASES_H
#define GM_RENDER_PHASES_H

#include "ask/phases.h"
#include "render/text.h"

struct gm_error *gm_render_phases_text(
        const struct gm_phases *phases, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_phases_json(const struct gm_phases *phases, FILE *out);

#endif
