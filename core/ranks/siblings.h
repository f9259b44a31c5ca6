/* Files FILE.PID next to the files that were asked for. */
#ifndef GM_RANKS_SIBLINGS_H
#define GM_RANKS_SIBLINGS_H

#include "ranks/job.h"

/* Fills in `siblings` and `sibling`, from the folders as this process sees them. Before the files
 * of a rank are chosen (gm_job_number()). */
struct gm_error *gm_job_find_siblings(struct gm_job *job);

#endif
