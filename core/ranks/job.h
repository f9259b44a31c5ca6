/* The recordings of a job, each as its summary, together in process 0. */
#ifndef GM_RANKS_JOB_H
#define GM_RANKS_JOB_H

#include "ranks/summary.h"

/* How a rank's number is known. */
enum gm_rank_known {
	GM_RANK_NOT_KNOWN,
	GM_RANK_BY_NAME, /* of the file */
	GM_RANK_RECORDED,
};

/* A process whose summaries this one does not understand: of another gpumem. */
struct gm_job_foreign {
	unsigned process;
	char *format, *host; /* owned */
	uint64_t files;      /* that it has read for nothing */
};

/* Bytes that came from a process, and the numbers of its strings here. */
struct gm_job_message {
	uint8_t *bytes;
	struct gm_string_numbers numbers;
};

/* A file that does not count, as another of the same rank is newer. Strings. */
struct gm_job_older {
	uint32_t path, rank;
	uint32_t newer; /* the file that counts; 0: the newest start has another number of ranks */
	uint32_t world; /* as this one recorded it */
};

/* The files that are of one job: of its batch system's, else of one script. */
struct gm_job_part {
	uint32_t name; /* string */
	size_t files;
};

struct gm_job {
	struct gm_strings strings;
	GM_ARRAY(struct gm_rank_summary) files; /* by rank, then by path */
	unsigned processes, machines;
	uint64_t moved_bytes; /* from all processes to the first */
	enum gm_rank_known known;
	uint32_t world;                      /* ranks of the job, as recorded; 0: not known */
	GM_ARRAY(uint32_t) missing;          /* ranks without a file, ascending */
	size_t missing_count;                /* all of them; `missing` has the first ones */
	GM_ARRAY(struct gm_job_older) older; /* by rank; they are not in `files` */
	GM_ARRAY(struct gm_job_part) parts;  /* none where all files are of one job */
	bool unique;                         /* no two files have one rank */
	bool same_names;                     /* two files in different folders have one name */
	size_t siblings;  /* files FILE.PID next to the files, which were not asked for */
	uint32_t sibling; /* string: one of them */
	size_t together;  /* files of a rank of which another process ran at the same time: ... */
	uint32_t together_rank; /* ... such as this rank; the ranks are not known then */
	size_t doubles;         /* files that several machines have read: they share the folder */
	GM_ARRAY(struct gm_job_foreign) foreign;
	GM_ARRAY(struct gm_job_message *) messages; /* what the files point into */
};

void gm_job_deinit(struct gm_job *job);

static inline const char *gm_job_string(const struct gm_job *job, uint32_t number)
{
	return gm_strings_at(&job->strings, number);
}

#endif
