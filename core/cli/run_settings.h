/* What `gpumem run` is told of a recording: checked, and put into the program's environment. */
#ifndef GM_CLI_RUN_SETTINGS_H
#define GM_CLI_RUN_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct gm_run_record {
	const char *out;      /* FILE, with %p and %r; NULL: nothing is recorded */
	const char *devices;  /* "cuda,cpu"; NULL: cuda */
	const char *stacks;   /* "python,native", "none"; NULL: both */
	const char *max_size; /* "2GiB"; NULL: no limit */
	const char *keep;     /* "newest", "oldest"; NULL: the newest */
	const char *on_oom;   /* "report", "core", "stop", "none"; NULL: none */
	const char *spool;    /* DIR: recorded there, and moved to `out` at the end; NULL: `out` */
	bool names;           /* the names of tensors are read from outside */
	const char *tool;     /* gm_nvidia_tool() */
};

/*
 * No FILE was named: sets one, in the folder that we are in or, where that cannot be written, in
 * that of temporary files; leaves it NULL where nothing is to be or can be recorded (`err` has got
 * a line that reports it).
 */
void gm_run_record_by_default(struct gm_run_record *record, FILE *err);
/* Why execvp() did not start a program. */
struct gm_error *gm_run_not_started(const char *name, int os_error);
/* Checks it all, the file that is there already too. *ret_out: its name as the program's processes
 * will see it, wherever they go; the caller frees it. */
struct gm_error *gm_run_settings_prepare(const struct gm_run_record *record, char **ret_out);
/* "DEVICE:INODE" of the existing file that this recording may replace; "": none. Of a job of
 * several ranks none, because it may be another rank's. */
#define GM_RUN_OLD_MAX 48
const char *gm_run_old_file(const char *path, char ret_text[GM_RUN_OLD_MAX]);
/* In the process that becomes the program. `list`: the file in which its processes enlist. */
struct gm_error *gm_run_settings_set(
        const struct gm_run_record *record, const char *out, const char *list, char **variables);

#endif
