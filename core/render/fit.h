/* fit as text and JSON. */
#ifndef GM_RENDER_FIT_H
#define GM_RENDER_FIT_H

#include <stdio.h>

#include "ask/fit.h"
#include "render/text.h"

/* A run of the only search, as soon as it has ended. */
void gm_render_fit_run(
        const struct gm_fit_table *table, const struct gm_fit_run *run, bool header, FILE *out);
/* The answer of the only search, behind its runs. */
void gm_render_fit_text(const struct gm_fit_table *table, FILE *out);
/* A row for each search, and the cheapest device. */
struct gm_error *gm_render_fit_table(
        const struct gm_fit_table *table, const struct gm_style *style, FILE *out);
/* tabled: more than one search was asked for. */
struct gm_error *gm_render_fit_json(const struct gm_fit_table *table, bool tabled, FILE *out);

#endif
