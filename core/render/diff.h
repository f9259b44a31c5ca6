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
/* Its parts, for who has thousands of files and writes one after the other. */
const char *gm_compared_by_name(enum gm_group_by by);
json_t *gm_compared_file_json(const struct gm_compared_file *file);
json_t *gm_compared_row_json(const struct gm_compared_row *row, size_t files);
json_t *gm_compared_odd_json(const struct gm_compare *compare);

#endif
