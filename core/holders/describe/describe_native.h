/* A reference of PyTorch's C++ objects, or a root's. Internal to core/holders. */
#ifndef GM_HOLDERS_DESCRIBE_NATIVE_H
#define GM_HOLDERS_DESCRIBE_NATIVE_H

#include "holders/describe/description.h"

void gm_describe_native(struct gm_description *description, const struct gm_edge *edge);

#endif
