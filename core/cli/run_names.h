/*
 * The names of tensors, read next to the program that is recorded: by a process of ours, at the
 * moment that the agent chooses (agent/names.h), and written into the recording. Killed at any
 * moment it leaves the program as it was: the kernel resumes what it has stopped.
 */
#ifndef GM_CLI_RUN_NAMES_H
#define GM_CLI_RUN_NAMES_H

#include <stdbool.h>
#include <sys/types.h>

struct gm_run_names; /* the result of it; shared with that process */

/* Begins to wait for the processes of a list (cli/packing.h). NULL: it cannot. */
struct gm_run_names *gm_run_names_begin(const char *list);
/* The program has ended: waits for names that are being read. What was in the way (at most `size`
 * bytes), or "". */
void gm_run_names_end(struct gm_run_names *names, char *ret_why, size_t size);

#endif
