/* Groups of blocks, as `blocks --by` and `peak` show them. */
#ifndef GM_RENDER_GROUPS_H
#define GM_RENDER_GROUPS_H

#include <jansson.h>

#include "ask/blocks.h"
#include "ask/recording/driven.h"
#include "render/text.h"

/* A table with the groups' keys under the head `what`. */
struct gm_error *gm_render_groups(const struct gm_group *groups, size_t count, const char *what,
        const struct gm_style *style, FILE *out);
/* [{"key", "bytes", "blocks"}]; a new reference. */
json_t *gm_json_groups(const struct gm_group *groups, size_t count);
/* A cell: "model.py:9 in Net.forward ← train.py:7", with `space` and `note` after it. */
void gm_table_site(struct gm_table *table, const struct gm_shown_site *site, const char *space,
        const char *note);
/* "site", "called_by", "node" and "operator", those that are known. */
void gm_json_set_site(json_t *object, const struct gm_shown_site *site);

#endif
