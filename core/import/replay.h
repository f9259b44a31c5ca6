/* Follows a trace: replay.c. Internal to core/import. */
#ifndef GM_IMPORT_REPLAY_H
#define GM_IMPORT_REPLAY_H

#include "import/snapshot.h"

/* Follows a device's trace. Its segments must have been read. */
struct gm_error *gm_replay(
        struct gm_snapshot *snapshot, struct gm_trace_device *device, gm_value segments);
/* The state of an address; NULL: the trace does not name it. */
struct gm_lived *gm_lived_find(const struct gm_trace_device *device, uint64_t address);

#endif
