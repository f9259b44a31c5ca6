/* The answer of `who-holds` as text and as JSON. */
#ifndef GM_RENDER_WHO_HOLDS_H
#define GM_RENDER_WHO_HOLDS_H

#include <stdio.h>

#include "ask/who_holds.h"

struct gm_error *gm_render_who_holds(const struct gm_who_holds *result, FILE *out);
struct gm_error *gm_render_who_holds_json(const struct gm_who_holds *result, FILE *out);

#endif
