/* What the summaries of a job say together, by question. */
#ifndef GM_RANKS_ANSWER_H
#define GM_RANKS_ANSWER_H

#include "ranks/groups.h"
#include "ranks/job.h"
#include "ranks/table.h"

struct gm_ranks_answer {
	enum gm_section section; /* that it is made of */
	size_t *files;           /* of each file that was read its place in the job; owned */
	size_t count;
	size_t without; /* files that were read, and whose section could not be made */
	/* Of GM_SECTION_PEAK: what gm_ask_compare() says of these files. */
	struct gm_compare compare;
	struct gm_rank_groups groups;
	/* Of the others: their rows, below; and of the timeline its columns. */
	struct gm_rank_table rows, columns;
};

/* What a row of a table is: `key`, and the figure in `more`. */
enum gm_rank_figure {
	GM_FIGURE_PEAK,  /* bytes: of the step or phase `key` */
	GM_FIGURE_END,   /* allocated at the step's end */
	GM_FIGURE_BYTES, /* of the line (a string), of the shape's kind */
	GM_FIGURE_BOUND, /* the same of a line whose growth ends by itself */
	GM_FIGURE_CALLS, /* of a collective: gm_calls_key() */
	GM_FIGURE_MOVED, /* the larger side of these, in bytes */
};
/* Which collective: its kind, its phase, and the ranks of its group. */
struct gm_calls_name {
	uint32_t kind, ranks;
	enum gm_phase phase;
};
struct gm_calls_name gm_calls_of(uint32_t key);

struct gm_error *gm_ranks_answer(
        const struct gm_job *job, enum gm_section section, struct gm_ranks_answer *ret_answer);
void gm_ranks_answer_deinit(struct gm_ranks_answer *answer);

#endif
