/*
 * A summary: what is kept of one recording. A few kilobytes, whatever the recording's size, as each
 * section bounds what it can hold much of and says whether it had to (`cut`).
 */
#ifndef GM_RANKS_SUMMARY_H
#define GM_RANKS_SUMMARY_H

#include "ranks/sections/section.h"

enum { GM_RANK_NONE = UINT32_MAX };

enum gm_rank_state {
	GM_RANK_READ,
	GM_RANK_UNREADABLE, /* there is a file, and `why` tells what is wrong with it */
	GM_RANK_STATES,
};

/* The place of a process in its job, as the recorder noted it: numbers from 0. */
enum gm_job_number {
	GM_JOB_RANK,
	GM_JOB_WORLD, /* how many ranks */
	GM_JOB_LOCAL_RANK,
	GM_JOB_TENSOR, /* parallel ranks: of tensors, pipeline, data, experts, context */
	GM_JOB_PIPELINE,
	GM_JOB_DATA,
	GM_JOB_EXPERT,
	GM_JOB_CONTEXT,
	GM_JOB_NUMBERS,
};
/* "rank", "world", "local_rank", "tp", ... */
const char *gm_job_number_name(enum gm_job_number number);

struct gm_summary_section {
	bool there, cut;
	uint32_t why; /* string: why it could not be made; 0: it is there, or was not wanted */
	const uint8_t *bytes; /* what gm_section_kind.code reads */
	size_t size;
	uint8_t *owned; /* `bytes`, where they are this summary's; or NULL */
};

/* Strings are numbers of the table that belongs to the summaries. */
struct gm_rank_summary {
	uint32_t path, host;
	uint64_t size;        /* of the file */
	uint64_t modified_ns; /* since the Unix epoch */
	enum gm_rank_state state;
	enum gm_status status; /* of UNREADABLE */
	uint32_t why;          /* of UNREADABLE */
	uint32_t version;      /* of the gpumem that read it */
	bool kept;             /* it was made by an earlier question, and the file is the same */

	bool closed;    /* the recording ended regularly */
	bool complete;  /* and has no gaps, as `info` says */
	bool truncated; /* its file ends within a chunk, at */
	uint64_t truncated_at;
	uint32_t source;    /* the command line */
	uint32_t allocator; /* the settings of PyTorch's allocator, as recorded; 0: none are */
	uint32_t batch; /* "SLURM_JOB_ID 17": the job of the batch system; 0: none is recorded */
	uint64_t pid, start_ns;
	uint64_t end_ns; /* of the last event; not before start_ns */
	uint64_t total;  /* bytes of the device that the peak is of; 0: not recorded */
	uint64_t ooms;   /* how often it ran out of memory, on any device */
	uint32_t numbers[GM_JOB_NUMBERS]; /* GM_RANK_NONE: not recorded */

	struct gm_summary_section sections[GM_SECTIONS];
	const struct gm_string_numbers
	        *strings; /* of the strings in the sections; NULL: they are as is */
};

static inline uint32_t gm_rank_of(const struct gm_rank_summary *summary)
{
	return summary->numbers[GM_JOB_RANK];
}

extern const struct gm_section_kind *const gm_sections[GM_SECTIONS];
/* Reads a recording: the sections whose bits are set. What is wrong with it is in the summary. An
 * error: no memory. */
struct gm_error *gm_rank_summarise(const char *path, const char *host, unsigned sections,
        struct gm_strings *strings, struct gm_rank_summary *ret_summary);
/* Decodes a section into its struct, which the caller deinits (gm_sections[]). False: it is not
 * there, or it is damaged, or there is no memory (*ret_no_memory). */
bool gm_summary_section(const struct gm_rank_summary *summary, enum gm_section section,
        void *ret_struct, bool *ret_no_memory);
/* The same summary with the strings of another table. False: it is damaged, or no memory. */
bool gm_summary_move(const struct gm_rank_summary *summary, const struct gm_strings *from,
        struct gm_strings *to, struct gm_rank_summary *ret_summary);
void gm_rank_summary_deinit(struct gm_rank_summary *summary);
/* In either direction. Read ones point into what is read. */
void gm_code_summary(struct gm_codec *codec, struct gm_rank_summary *summary);

#endif
