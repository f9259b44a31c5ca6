/* replay as text and JSON. */
#ifndef GM_RENDER_REPLAY_H
#define GM_RENDER_REPLAY_H

#include <stdio.h>

#include "ask/replay.h"

void gm_render_replay_text(const struct gm_replay *replay, FILE *out);
struct gm_error *gm_render_replay_json(const struct gm_replay *replay, FILE *out);

#endif
