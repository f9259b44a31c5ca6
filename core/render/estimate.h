/* The answer of estimate, as text and as JSON. */
#ifndef GM_RENDER_ESTIMATE_H
#define GM_RENDER_ESTIMATE_H

#include <stdio.h>

#include "ask/estimate.h"

void gm_render_estimate_text(const struct gm_estimate_answer *answer, FILE *out);
struct gm_error *gm_render_estimate_json(const struct gm_estimate_answer *answer, FILE *out);

#endif
