/* Collectives of a recording: each call, and the calls of a step and phase taken together. */
#ifndef GM_RENDER_COLLECTIVES_H
#define GM_RENDER_COLLECTIVES_H

#include <jansson.h>

#include "ask/collectives.h"
#include "render/text.h"

/* One line a call. */
struct gm_error *gm_render_collectives_text(
        const struct gm_collectives *collectives, const struct gm_style *style, FILE *out);
/* One object a line. */
struct gm_error *gm_render_collectives_json(const struct gm_collectives *collectives, FILE *out);

/* A row for each kind of call in a step and phase. */
struct gm_error *gm_render_collective_groups_text(
        const struct gm_collectives *collectives, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_collective_groups_json(
        const struct gm_collectives *collectives, FILE *out);
/* The array of those; NULL: no memory. */
json_t *gm_json_collective_groups(const struct gm_collectives *collectives);
/* Those of one step as one line with its newline, such as "step 2 calls NCCL: 3 all_reduce (64.03
 * MiB) in backward"; nothing where there are none. */
void gm_put_collectives_of_step(const struct gm_collectives *collectives, uint32_t step, FILE *out);

#endif
