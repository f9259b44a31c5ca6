/* Reads a snapshot: snapshot_read.c. Internal to core/import. */
#ifndef GM_IMPORT_SNAPSHOT_READ_H
#define GM_IMPORT_SNAPSHOT_READ_H

#include "import/snapshot.h"

/* On an error too, it is to be taken down. */
struct gm_error *gm_snapshot_read(struct gm_snapshot *snapshot, const char *path, bool plainly);
void gm_snapshot_deinit(struct gm_snapshot *snapshot);

#endif
