/* The recordings of a job side by side: each figure's least, median and most, and in which rank. */
#ifndef GM_RANKS_RENDER_COMPARE_H
#define GM_RANKS_RENDER_COMPARE_H

#include "ranks/answer.h"
#include "render/text.h"

struct gm_error *gm_render_ranks_info(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_ranks_peak(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out);
/* What `gpumem peak FILES... --json` has, and "job". */
struct gm_error *gm_render_ranks_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out);

#endif
