/* Which accelerator a snapshot is of: device_type.c. Internal to core/import. */
#ifndef GM_IMPORT_DEVICE_TYPE_H
#define GM_IMPORT_DEVICE_TYPE_H

#include "import/snapshot.h"

uint8_t gm_snapshot_device_type(const struct gm_pickle *pickle, gm_value root);
/* "cuda:0", "xpu:1", "pinned", "device 0" */
enum { GM_SNAPSHOT_DEVICE_NAME = 32 };
const char *gm_snapshot_device_name(
        const struct gm_trace_device *device, char name[GM_SNAPSHOT_DEVICE_NAME]);

#endif
