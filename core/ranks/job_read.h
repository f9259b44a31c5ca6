/* The summaries of a job, made by all processes and brought together. */
#ifndef GM_RANKS_JOB_READ_H
#define GM_RANKS_JOB_READ_H

#include "ranks/files.h"
#include "ranks/job.h"
#include "ranks/world.h"

struct gm_job_options {
	unsigned sections; /* bits of enum gm_section */
	bool keep;         /* summaries next to the recordings, read and written */
};

/* Each process reads its files, and process 0 gets all summaries; in others *ret_job is empty. */
struct gm_error *gm_job_read(struct gm_world *world, const struct gm_rank_paths *paths,
        const struct gm_job_options *options, struct gm_job *ret_job);

#endif
