/*
 * Another recording beside the page's own: its memory, to be drawn over the plot, and the
 * differences as `diff` has them. The columns `other` and `other.…`.
 */
#ifndef GM_VIEW_OTHER_H
#define GM_VIEW_OTHER_H

#include "ask/context.h"
#include "view/column.h"

/* `context`: of the page's own recording. The other one is read on its own, and closed. */
struct gm_error *gm_view_other(
        struct gm_context *context, const char *path, struct gm_view_columns *columns);

#endif
