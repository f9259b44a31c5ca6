/* Groups of blocks, as `blocks --by` and `peak` tell them. */
#ifndef GM_RENDER_GROUPS_H
#define GM_RENDER_GROUPS_H

#include <jansson.h>

#include "ask/blocks.h"
#include "render/text.h"

/* A table with the groups' keys under the head `what`. */
struct gm_error *gm_render_groups(const struct gm_group *groups, size_t count, const char *what,
        const struct gm_style *style, FILE *out);
/* [{"key", "bytes", "blocks"}]; a new reference. */
json_t *gm_json_groups(const struct gm_group *groups, size_t count);

#endif
