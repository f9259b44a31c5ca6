/* The answer of `oom` as text and as JSON. */
#ifndef GM_RENDER_OOM_H
#define GM_RENDER_OOM_H

#include <stdio.h>

#include "ask/oom.h"
#include "ask/oom/oom_text.h"
#include "render/text.h"

/* next: what to type next, a line each, NULL at the end; may be NULL. */
struct gm_error *gm_render_oom_text(
        const struct gm_oom *oom, const char *const *next, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_oom_json(const struct gm_oom *oom, FILE *out);

/* Messages found in a text, each evaluated. */
struct gm_error *gm_render_oom_messages_text(const struct gm_oom_messages *messages,
        const struct gm_oom_judgement *judgements, const struct gm_style *style, FILE *out);
struct gm_error *gm_render_oom_messages_json(const struct gm_oom_messages *messages,
        const struct gm_oom_judgement *judgements, FILE *out);

#endif
