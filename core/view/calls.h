/* The frames of stacks that the page's flame graph shows: those of `blocks --tree`, the column
 * `stacks.told`. */
#ifndef GM_VIEW_CALLS_H
#define GM_VIEW_CALLS_H

#include "model/model.h"
#include "view/column.h"

/* Of these Python stacks of the log, in this order. */
struct gm_error *gm_view_calls(const struct gm_model *model, const uint32_t *stacks, size_t count,
        struct gm_view_columns *columns);

#endif
