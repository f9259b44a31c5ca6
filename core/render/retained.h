/* The answer of `retained` as text and as JSON. */
#ifndef GM_RENDER_RETAINED_H
#define GM_RENDER_RETAINED_H

#include <stdio.h>

#include "ask/retained.h"
#include "render/text.h"

struct gm_retained_view {
	uint32_t depth; /* levels; 0: those that fit the form (text: 3, JSON: all) */
	bool has_min;
	uint64_t min; /* bytes; what is smaller is told as one */
};

struct gm_error *gm_render_retained_text(const struct gm_retained_answer *answer,
        const struct gm_retained_view *view, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_retained_json(
        const struct gm_retained_answer *answer, const struct gm_retained_view *view, FILE *out);

#endif
