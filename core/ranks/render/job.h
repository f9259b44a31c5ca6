/* What every answer about a job begins with: how many recordings it rests on, and how complete they
 * are. */
#ifndef GM_RANKS_RENDER_JOB_H
#define GM_RANKS_RENDER_JOB_H

#include <stdio.h>

#include "ranks/answer.h"
#include "ranks/render/stream.h"
#include "render/text.h"

void gm_render_job_head(const struct gm_job *job, const struct gm_ranks_answer *answer, FILE *out);
/* The same as the member "job" of an answer. */
void gm_stream_job(struct gm_json_stream *stream, const struct gm_job *job,
        const struct gm_ranks_answer *answer);
/* "rank 17", else the file's own name. The caller frees it; NULL: no memory. `file`: of the answer.
 */
char *gm_job_name(const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file);
/* The rank as a number, null where it is not known; `file`: of the answer. */
json_t *gm_job_rank_json(
        const struct gm_job *job, const struct gm_ranks_answer *answer, size_t file);
/* "0-74, 76", "0-296 (each 4th)": ranks, or places of files where these are not known. */
void gm_put_ranks(const struct gm_job *job, const struct gm_ranks_answer *answer,
        const size_t *files, size_t count, FILE *out);

#endif
