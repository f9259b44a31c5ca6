/*
 * A summary: what is kept of one recording. A few kilobytes, whatever the recording's size, as what
 * it can hold much of is bounded; `cut` then says so.
 */
#ifndef GM_RANKS_SUMMARY_H
#define GM_RANKS_SUMMARY_H

#include "ask/diff.h"
#include "base/strings.h"

struct gm_codec;

enum { GM_RANK_NONE = UINT32_MAX };

enum gm_rank_state {
	GM_RANK_READ,
	GM_RANK_UNREADABLE, /* there is a file, and `why` tells what is wrong with it */
	GM_RANK_STATES,
};

/* What a summary is bounded to. */
enum {
	GM_SUMMARY_SHARES_MOST = 2000, /* lines, of a table: the largest */
	GM_SUMMARY_STEPS_MOST = 20000, /* the first ones */
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

	bool closed;    /* the recording ended regularly */
	bool truncated; /* its file ends within a chunk, at */
	uint64_t truncated_at;
	uint32_t source; /* the command line */
	uint64_t pid, start_ns;
	uint32_t rank, world; /* as recorded; GM_RANK_NONE: they are not */

	struct gm_compared_one compared; /* by category and by line, at the peak */
	bool cut;
};

/* Reads a recording. What is wrong with it is in the summary. An error: no memory. */
struct gm_error *gm_rank_summarise(const char *path, const char *host, struct gm_strings *strings,
        struct gm_rank_summary *ret_summary);
void gm_rank_summary_deinit(struct gm_rank_summary *summary);
/* In either direction. */
void gm_code_summary(struct gm_codec *codec, struct gm_rank_summary *summary);

#endif
