/* fit as text and JSON. */
#ifndef GM_RENDER_FIT_H
#define GM_RENDER_FIT_H

#include "ask/fit.h"

#include <stdio.h>

struct gm_fit_view {
	const char *name;   /* of the value, in braces: "{batch}" */
	const char *device; /* as it was named: "a100-40gb" */
	uint64_t total;     /* its bytes */
};

void gm_render_fit_text(const struct gm_fit *fit, const struct gm_fit_view *view, FILE *out);
struct gm_error *gm_render_fit_json(
        const struct gm_fit *fit, const struct gm_fit_view *view, FILE *out);

#endif
