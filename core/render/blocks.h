/* What the answers about blocks share: blocks as JSON, the line above them. */
#ifndef GM_RENDER_BLOCKS_H
#define GM_RENDER_BLOCKS_H

#include <jansson.h>
#include <stdio.h>

#include "ask/blocks.h"

/* list: one by one too. */
json_t *gm_json_blocks(const struct gm_blocks *blocks, bool list);
/* "cuda:0: 2.06 GiB at the peak (...) in 2095 blocks after event 6327486, in step 4219
 * (forward)" */
void gm_put_blocks_head(const struct gm_blocks *blocks, const char *what, FILE *out);
/* The head of the column that has the groups' keys. */
const char *gm_groups_head(const struct gm_blocks *blocks);

#endif
