/*
 * Recordings are packed next to the program that makes them, by a process of ours: what is finished
 * while it runs (spool's packer), and all of it, in the form of a log, when it has ended. That
 * process may be killed at any moment: the recording is whole, and only stays larger.
 */
#ifndef GM_CLI_PACKING_H
#define GM_CLI_PACKING_H

#include <sys/types.h>

#include "inject/inject.h"
#include "spool/spool.h"

/* The processes and files of a list, to which the agent adds lines "PID" or "PID PATH" (its setting
 * `list`). */
typedef void gm_packing_entry(void *context, pid_t pid, const char *path /* "": none yet */);
void gm_packing_read_list(const char *list, gm_packing_entry *entry, void *context);

/* Puts the agent's file into the form of a log, packed, in its place: a reader finds either,
 * whole. */
struct gm_error *gm_packing_finish(const char *path, const struct gm_spool_options *options,
        struct gm_spool_summary *ret_summary);

/* Begins to pack the files of a list while their processes run; ends with us. -1: it cannot, and
 * nothing is packed. */
pid_t gm_packing_begin(const char *list);
void gm_packing_end(pid_t packer);

/*
 * The same for a process that is not our child, with its end: continues when we have ended, until
 * the process, and those that it forked, have. With the rights that it had when it was first looked
 * at, never with ours. `path`: its recording, as we name it.
 */
void gm_packing_keep(const struct gm_inject_identity *identity, const char *path, const char *list);

#endif
