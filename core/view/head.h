/* What the page says in words and single figures: the columns `head` and `run.*`. */
#ifndef GM_VIEW_HEAD_H
#define GM_VIEW_HEAD_H

#include "ask/context.h"
#include "model/model.h"
#include "view/column.h"

struct gm_error *gm_view_head(
        struct gm_context *context, const struct gm_model *model, struct gm_view_columns *columns);
/* The columns `PREFIX.first`, `.step` and `.phase`. */
void gm_view_runs(
        const struct gm_model *model, const char *prefix, struct gm_view_columns *columns);

#endif
