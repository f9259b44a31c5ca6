/* The shapes that PyTorch's operators give a name. Internal to core/ask. */
#ifndef GM_ASK_SHAPES_NAMED_H
#define GM_ASK_SHAPES_NAMED_H

#include "ask/recording/shapes_find.h"

/* The shapes that PyTorch's operators give a name. To be called when the others are known. */
void gm_shapes_name(struct gm_looking *looking);

#endif
