/* What a row of a table is of, as text and as JSON. */
#ifndef GM_RANKS_RENDER_ROW_NAME_H
#define GM_RANKS_RENDER_ROW_NAME_H

#include <jansson.h>

#include "ranks/answer.h"

/* "backward", "train.py:7 in train", "all_reduce in backward, 8 ranks". The caller frees it; NULL:
 * no memory. */
char *gm_row_name(const struct gm_job *job, enum gm_section section, const struct gm_rank_row *row);
void gm_set_row_name(json_t *value, const struct gm_job *job, enum gm_section section,
        const struct gm_rank_row *row);
/* "peak", "calls" */
const char *gm_row_figure(const struct gm_rank_row *row);

#endif
