/* What a group of `retained` is called, in words. The caller frees; NULL: no memory. */
#ifndef GM_RENDER_RETAINED_NAME_H
#define GM_RENDER_RETAINED_NAME_H

#include "holders/retained/retained.h"

/* "global 'optimizer'" */
char *gm_retained_name_text(const struct gm_retained_name *name);
/* All of a group's: "global 'optimizer' .state" */
char *gm_retained_node_text(const struct gm_retained_node *node);

#endif
