/* steps as text and JSON. */
#ifndef GM_RENDER_STEPS_H
#define GM_RENDER_STEPS_H

#include "ask/steps.h"
#include "render/text.h"

struct gm_error *gm_render_steps_text(const struct gm_steps_answer *answer, bool explain,
        const struct gm_style *style, FILE *out);
struct gm_error *gm_render_steps_json(const struct gm_steps_answer *answer, FILE *out);

#endif
