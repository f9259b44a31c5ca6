/*
 * Recordings that are made in one folder and kept in another (`gpumem run --spool`): a job's ranks
 * record on their node's own disk, and only a finished recording goes to the shared file system.
 *
 * The file in the spool folder names the file that it is for. It is removed when that one is
 * complete, and not before: whatever is killed, one of the two is there.
 */
#ifndef GM_CLI_SPOOLED_H
#define GM_CLI_SPOOLED_H

#include <stdio.h>

#include "spool/spool.h"

/* One recording in the spool folder. */
struct gm_spooled {
	char *path;             /* owned, as is the next */
	char *saved;            /* where it was saved, NULL: not yet */
	uint64_t device, inode; /* of the file that was saved there */
	uint32_t ooms;          /* when it was looked at last */
	int lock;               /* held while its process may run; -1: none */
};

/* False: no memory. */
bool gm_spooled_init(struct gm_spooled *spooled, const char *path);
void gm_spooled_deinit(struct gm_spooled *spooled);

/*
 * Saves what was recorded so far to the file that it is for. No other file is overwritten: where
 * one of that name exists, the name gets the process's id. A file that was saved before is
 * replaced, and so is the one that `old` names ("DEVICE:INODE"; "": none). The file in the spool
 * folder stays.
 */
struct gm_error *gm_spooled_save(struct gm_spooled *spooled, const char *old,
        const struct gm_spool_options *options, struct gm_spool_summary *ret_summary);
/* Whether a device ran out of memory since this was asked last. */
bool gm_spooled_has_oom(struct gm_spooled *spooled);

/* Recordings of `folder` whose processes have ended, and that nothing saves any more. */
size_t gm_spooled_count_left(const char *folder);
/* Saves them, removes them from `folder`, and writes a line for each. */
struct gm_error *gm_spooled_collect(const char *folder, FILE *err);

#endif
