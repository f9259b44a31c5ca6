/* How the answer of `core` looks: what was written and what was left out. */
#ifndef GM_RENDER_CORE_H
#define GM_RENDER_CORE_H

#include <stdio.h>

#include "image/core_write.h"

void gm_render_core(const char *path, int pid, const struct gm_core_written *written, FILE *out);
/* {"core":PATH,"pid":…,"threads":…,"memory":…,"length":…,"disk":…,"stopped_seconds":…,"unread":…,
 * "left_out":{"device":…,"untouched":…,"files":…}} in bytes. */
struct gm_error *gm_render_core_json(
        const char *path, int pid, const struct gm_core_written *written, FILE *out);

#endif
