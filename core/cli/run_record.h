/*
 * `gpumem run`: starts a program with the agent preloaded, waits for it, and puts what was recorded
 * into its final form.
 */
#ifndef GM_CLI_RUN_RECORD_H
#define GM_CLI_RUN_RECORD_H

#include <stdio.h>

#include "base/error.h"

struct gm_run_record {
	const char *out;      /* FILE, with %p and %r; NULL: nothing is recorded */
	const char *devices;  /* "cuda,cpu"; NULL: cuda */
	const char *stacks;   /* "python,native", "none"; NULL: both */
	const char *max_size; /* "2GiB"; NULL: no limit */
	const char *keep;     /* "newest", "oldest"; NULL: the newest */
	const char *on_oom;   /* "core", "stop", "none"; NULL: none */
};

/*
 * No FILE was named: sets one, in the folder that we are in or, where that cannot be written, in
 * that of temporary files; leaves it NULL where nothing is to be or can be recorded (`err` has got
 * a line that says so).
 */
void gm_run_record_by_default(struct gm_run_record *record, FILE *err);

/*
 * Runs argv to its end; streams and signals are the program's own. ret_status is its exit status;
 * where a signal ended it, this process ends by the same. `variables`: NULL-ended "NAME=VALUE" for
 * the program beside.
 */
struct gm_error *gm_run_record(const struct gm_run_record *record, char **argv, char **variables,
        FILE *err, int *ret_status);

#endif
