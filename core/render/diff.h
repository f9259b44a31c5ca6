/* Several recordings side by side, as text and as JSON. */
#ifndef GM_RENDER_DIFF_H
#define GM_RENDER_DIFF_H

#include <jansson.h>

#include "ask/diff.h"
#include "render/text.h"

struct gm_compare_view {
	bool files_only; /* info: no groups, no steps */
	bool all;        /* peak: what is the same in all files too, the largest first */
};

struct gm_error *gm_render_compare_text(const struct gm_compare *compare,
        const struct gm_compare_view *view, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_compare_json(const struct gm_compare *compare, FILE *out);
/* The same as a value, for who adds to it. */
json_t *gm_compare_json(const struct gm_compare *compare);

#endif
