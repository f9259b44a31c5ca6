/* top as text. */
#ifndef GM_RENDER_TOP_H
#define GM_RENDER_TOP_H

#include "ask/top.h"
#include "render/text.h"

/* events_per_second: less than 0: not known. */
void gm_render_top_text(const struct gm_top *top, int pid, double events_per_second, FILE *out);

#endif
