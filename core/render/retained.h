/* The answer of `retained` as text and as JSON. */
#ifndef GM_RENDER_RETAINED_H
#define GM_RENDER_RETAINED_H

#include <stdio.h>

#include "ask/retained.h"
#include "ask/retained_diff.h"
#include "render/text.h"

/* What the JSON says it is. A saved answer is that JSON. */
#define GM_RETAINED_FORMAT "gpumem-retained-1"

struct gm_retained_view {
	uint32_t depth; /* levels; 0: those that fit the form (text: 3, JSON: all) */
	bool has_min;
	uint64_t min; /* bytes; what is smaller is shown as one */
};

struct gm_error *gm_render_retained_text(const struct gm_retained_answer *answer,
        const struct gm_retained_view *view, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_retained_json(
        const struct gm_retained_answer *answer, const struct gm_retained_view *view, FILE *out);

/* retained_file.c: writes an answer to be compared with later, and reads one. GM_USAGE: cannot be
 * written; GM_CORRUPT: not readable, or no such file. gm_retained_deinit() releases what was
 * read. */
struct gm_error *gm_retained_save(const struct gm_retained_answer *answer, const char *path);
struct gm_error *gm_retained_load(const char *path, struct gm_retained *ret_retained);

/* retained_diff.c */
struct gm_error *gm_render_retained_diff_text(const struct gm_retained_diff *diff,
        const struct gm_retained_view *view, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_retained_diff_json(
        const struct gm_retained_diff *diff, const struct gm_retained_view *view, FILE *out);

#endif
