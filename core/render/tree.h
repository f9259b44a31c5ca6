/* The call tree of `peak --tree` and `blocks --tree`. */
#ifndef GM_RENDER_TREE_H
#define GM_RENDER_TREE_H

#include <jansson.h>

#include "ask/recording/tree.h"
#include "render/text.h"

struct gm_error *gm_render_tree(
        const struct gm_tree *tree, const struct gm_style *style, FILE *out);
/* [{"kind", "bytes", "blocks", "site", "node", "operator", "children"}]: the outermost calls; a new
 * reference. */
json_t *gm_json_tree(const struct gm_tree *tree);

#endif
