/* A line on a terminal that says how far something is, and is gone when it is done. */
#ifndef GM_CLI_PROGRESS_H
#define GM_CLI_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "base/progress.h"

struct gm_progress_line {
	FILE *out; /* NULL: no terminal, nothing is written */
	int percent;
	size_t width; /* of what stands there */
};

/* `out` where that is a terminal. */
struct gm_progress_line gm_progress_begin(FILE *out);
/* Shown where it says something new. GM_PROGRESS_DONE: as gm_progress_end(). */
void gm_progress_show(
        struct gm_progress_line *line, enum gm_progress_kind kind, uint64_t done, uint64_t all);
void gm_progress_end(struct gm_progress_line *line);

#endif
