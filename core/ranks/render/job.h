/* What every answer about a job begins with: how many recordings it rests on, and how complete they
 * are. */
#ifndef GM_RANKS_RENDER_JOB_H
#define GM_RANKS_RENDER_JOB_H

#include <jansson.h>
#include <stdio.h>

#include "ranks/job.h"
#include "render/text.h"

void gm_render_job_head(const struct gm_job *job, FILE *out);
/* The same, as the member "job" of an answer. */
json_t *gm_job_json(const struct gm_job *job);
/* "rank 17", else the file's own name. The caller frees it; NULL: no memory. */
char *gm_job_name(const struct gm_job *job, size_t file);

#endif
