/* The rows of the versions that gpumem ships. Internal to core/torch: layouts.h finds one. */
#ifndef GM_TORCH_LAYOUT_ROWS_H
#define GM_TORCH_LAYOUT_ROWS_H

#include "torch/layout.h"

/* All rows, oldest first, and what versions they are of, for messages: layout_rows.c, made from
 * what was learned. */
extern const struct gm_torch_layout gm_torch_layouts[];
extern const size_t gm_torch_layout_count;
extern const char gm_torch_layout_range[];

#endif
