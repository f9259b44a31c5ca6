/* A reference between Python objects. Internal to core/holders. */
#ifndef GM_HOLDERS_DESCRIBE_PYTHON_H
#define GM_HOLDERS_DESCRIBE_PYTHON_H

#include "holders/describe/description.h"

void gm_describe_python(struct gm_description *description, const struct gm_edge *edge);

#endif
