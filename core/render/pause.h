/* Whether a process was stopped while it was read. */
#ifndef GM_RENDER_PAUSE_H
#define GM_RENDER_PAUSE_H

#include <jansson.h>
#include <stdio.h>

#include "ask/target/pause.h"

/* A line where it did not; nothing else. */
void gm_put_pause(const struct gm_pause *pause, FILE *out);
/* {"state":"still|paused|not_paused|not_stoppable|inconsistent","seconds":0.21,"tries":1,"copied":812345600}
 */
json_t *gm_json_pause(const struct gm_pause *pause);

#endif
