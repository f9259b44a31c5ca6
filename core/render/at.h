/* A past state of a recording: an event, the bytes of its device after it, and the biggest blocks.
 */
#ifndef GM_RENDER_AT_H
#define GM_RENDER_AT_H

#include <stdio.h>

#include "ask/blocks.h"
#include "base/error.h"
#include "render/text.h"

/* blocks: those that were live after the event. */
struct gm_error *gm_render_at_text(
        const struct gm_blocks *blocks, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_at_json(const struct gm_blocks *blocks, FILE *out);

#endif
