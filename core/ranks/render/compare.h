/* info, peak and diff of a job: each figure's least, median and most, which ranks are alike, and
 * which stand out. */
#ifndef GM_RANKS_RENDER_COMPARE_H
#define GM_RANKS_RENDER_COMPARE_H

#include "ranks/answer.h"
#include "render/text.h"

enum gm_ranks_view {
	GM_RANKS_SUMS,      /* info: no groups of blocks */
	GM_RANKS_ALL,       /* peak: the largest first */
	GM_RANKS_DIFFERENT, /* diff: only what differs, the farthest apart first */
};

struct gm_error *gm_render_ranks_compare(const struct gm_job *job,
        const struct gm_ranks_answer *answer, enum gm_ranks_view view, const struct gm_style *style,
        FILE *out);
/* What `gpumem diff FILES... --json` has, and "job", "groups" and "stand_out". */
struct gm_error *gm_render_ranks_compare_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out);

#endif
