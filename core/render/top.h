/* top as text. */
#ifndef GM_RENDER_TOP_H
#define GM_RENDER_TOP_H

#include "ask/top.h"
#include "render/text.h"

enum gm_top_order { GM_TOP_BY_SIZE, GM_TOP_BY_BLOCKS, GM_TOP_BY_LINE, GM_TOP_ORDERS };

/* Which of the lines that allocated are shown, and how many. */
struct gm_top_view {
	enum gm_top_order order;
	const char *filter; /* only lines that contain this; NULL, "": all */
	size_t from, rows;  /* the first one, and how many */
};

enum { GM_TOP_ROWS = 12 }; /* where nobody scrolls */

const char *gm_top_order_name(enum gm_top_order order);
/* events_per_second: less than 0: not known. Returns the number of lines that pass the filter. */
size_t gm_render_top_text(const struct gm_top *top, int pid, double events_per_second,
        const struct gm_top_view *view, FILE *out);

#endif
