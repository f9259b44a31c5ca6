/* Text and JSON of mixed precision in a process or a core. */
#ifndef GM_RENDER_AMP_NOW_H
#define GM_RENDER_AMP_NOW_H

#include "ask/target/amp_now.h"
#include "render/text.h"

struct gm_error *gm_render_amp_now_text(const struct gm_amp_now *now, FILE *out);
struct gm_error *gm_render_amp_now_json(const struct gm_amp_now *now, FILE *out);

#endif
