/* The variables of frames and modules. Internal to core/holders. */
#ifndef GM_HOLDERS_DESCRIBE_VARIABLE_H
#define GM_HOLDERS_DESCRIBE_VARIABLE_H

#include "holders/describe/description.h"

void gm_describe_global(
        struct gm_description *description, const struct gm_edge *edge, const char *name);
void gm_describe_frame(
        struct gm_description *description, const struct gm_edge *edge, bool through_cell);
void gm_describe_kept_local(
        struct gm_description *description, const struct gm_edge *edge, const char *name);
void gm_describe_cell(struct gm_description *description, const struct gm_edge *edge);

#endif
