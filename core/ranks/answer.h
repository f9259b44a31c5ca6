/* A job's recordings side by side: what gm_ask_compare() would say of those that can be read. */
#ifndef GM_RANKS_ANSWER_H
#define GM_RANKS_ANSWER_H

#include "ranks/job.h"

struct gm_ranks_answer {
	struct gm_compare compare; /* of the files that were read */
	size_t *files;             /* of each of them its place in the job; owned */
};

/* The steps of the job's summaries go into the answer. */
struct gm_error *gm_ranks_answer(struct gm_job *job, struct gm_ranks_answer *ret_answer);
void gm_ranks_answer_deinit(struct gm_ranks_answer *answer);

#endif
