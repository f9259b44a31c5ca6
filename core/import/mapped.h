/* Which memory of expandable segments was mapped before a trace began. Internal to core/import. */
#ifndef GM_IMPORT_MAPPED_H
#define GM_IMPORT_MAPPED_H

#include "import/snapshot.h"

/* A range that the trace maps or unmaps, or that is mapped in the snapshot's segments: to be
 * called in the order of the trace, then for the segments. */
struct gm_error *gm_mapped_see(struct gm_trace_device *device, const struct gm_mapped *range);
/* Afterwards: adds what was mapped before the trace to `device->before`. */
struct gm_error *gm_mapped_find(struct gm_trace_device *device);

#endif
