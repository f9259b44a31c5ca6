/* The answer of `who-holds` as text and as JSON. */
#ifndef GM_RENDER_WHO_HOLDS_H
#define GM_RENDER_WHO_HOLDS_H

#include <stdio.h>

#include "ask/who_holds.h"

/* `all`: also the paths from frames of PyTorch and Python that lead to an object to which the
 * program's own variables lead (render/holder_lines.h). */
struct gm_error *gm_render_who_holds(const struct gm_who_holds *result, bool all, FILE *out);
struct gm_error *gm_render_who_holds_json(const struct gm_who_holds *result, FILE *out);

#endif
