/* leaks as text and JSON. */
#ifndef GM_RENDER_LEAKS_H
#define GM_RENDER_LEAKS_H

#include "ask/leaks.h"
#include "render/text.h"

struct gm_error *gm_render_leaks_text(
        const struct gm_leaks *leaks, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_leaks_json(const struct gm_leaks *leaks, FILE *out);

#endif
