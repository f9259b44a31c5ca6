/* timeline: the plot in a terminal, and its shapes in words. */
#ifndef GM_RENDER_TIMELINE_H
#define GM_RENDER_TIMELINE_H

#include "ask/collectives.h"
#include "ask/timeline.h"
#include "render/text.h"

enum { GM_PLOT_COLUMNS_MAX = 400, GM_PLOT_COLUMNS_MIN = 30, GM_PLOT_LABEL = 11 };

/* How many columns of events fit beside the labels of a terminal so wide; 0: no terminal. */
size_t gm_plot_columns(int columns);

/* A line for each shape. */
void gm_render_shapes_text(const struct gm_shapes *shapes, FILE *out);
struct gm_error *gm_render_timeline_text(const struct gm_shapes *shapes,
        const struct gm_collectives *collectives, const struct gm_column *columns, size_t count,
        const struct gm_style *style, FILE *out);
/* collectives NULL: they are left out. */
struct gm_error *gm_render_timeline_json(const struct gm_shapes *shapes,
        const struct gm_collectives *collectives, const struct gm_column *columns, size_t count,
        FILE *out);

#endif
