/* The recordings of a job, each as its summary, together in process 0. */
#ifndef GM_RANKS_JOB_H
#define GM_RANKS_JOB_H

#include "ranks/files.h"
#include "ranks/summary.h"
#include "ranks/world.h"

/* How a rank's number is known. */
enum gm_rank_known {
	GM_RANK_NOT_KNOWN,
	GM_RANK_BY_NAME, /* of the file */
	GM_RANK_RECORDED,
};

struct gm_job {
	struct gm_strings strings;
	GM_ARRAY(struct gm_rank_summary) files; /* by rank, then by path */
	unsigned processes, machines;
	uint64_t moved_bytes; /* from all processes to the first */
	enum gm_rank_known known;
	uint32_t world;             /* ranks of the job, as recorded; 0: not known */
	GM_ARRAY(uint32_t) missing; /* ranks without a file, ascending */
	size_t missing_count;       /* all of them; `missing` has the first ones */
};

/* Each process reads its files, and process 0 gets all summaries; in others *ret_job is empty. */
struct gm_error *gm_job_read(
        struct gm_world *world, const struct gm_rank_paths *paths, struct gm_job *ret_job);
void gm_job_deinit(struct gm_job *job);

#endif
