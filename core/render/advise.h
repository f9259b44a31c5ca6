/* advise as text and JSON. */
#ifndef GM_RENDER_ADVISE_H
#define GM_RENDER_ADVISE_H

#include <stdio.h>

#include "ask/advise.h"
#include "render/text.h"

/* all: with what does not help, and why. */
struct gm_error *gm_render_advise_text(
        const struct gm_advise *advise, bool all, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_advise_json(const struct gm_advise *advise, FILE *out);

#endif
