/* The name of a group of blocks. */
#ifndef GM_RENDER_GROUP_TEXT_H
#define GM_RENDER_GROUP_TEXT_H

#include "ask/blocks.h"

/* A group's key, or what its blocks lack. */
const char *gm_text_group(enum gm_group_kind kind, const char *key);

#endif
