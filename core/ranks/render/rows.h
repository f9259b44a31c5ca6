/* steps, phases, leaks, oom, timeline and zero of a job. */
#ifndef GM_RANKS_RENDER_ROWS_H
#define GM_RANKS_RENDER_ROWS_H

#include "ranks/answer.h"
#include "render/text.h"

struct gm_error *gm_render_ranks_rows(const struct gm_job *job,
        const struct gm_ranks_answer *answer, const struct gm_style *style, FILE *out);
/* "job", "rows", and of each file what `gpumem QUESTION FILE --json` says of it. */
struct gm_error *gm_render_ranks_rows_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out);

#endif
