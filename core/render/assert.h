/* assert as text and JSON. */
#ifndef GM_RENDER_ASSERT_H
#define GM_RENDER_ASSERT_H

#include "ask/assert.h"
#include "render/text.h"

/* name: the recording's, as it was given; NULL: the session's own. */
struct gm_error *gm_render_assert_text(
        const char *name, const struct gm_assert_answer *answer, FILE *out);
struct gm_error *gm_render_assert_json(
        const char *const *names, const struct gm_assert_answer *answers, size_t count, FILE *out);

#endif
