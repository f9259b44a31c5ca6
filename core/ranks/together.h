/* Files of one rank whose processes ran at the same time. */
#ifndef GM_RANKS_TOGETHER_H
#define GM_RANKS_TOGETHER_H

#include "ranks/job.h"

/* Forgets the ranks of all files if two processes of one rank ran at the same time: the number is
 * then not that of a rank. Fills in `together`. Reorders the files. */
void gm_job_forget_together(struct gm_job *job);

#endif
