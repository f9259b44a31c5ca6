/* What variables are called. Internal to core/holders. */
#ifndef GM_HOLDERS_VARIABLES_H
#define GM_HOLDERS_VARIABLES_H

#include "holders/retained/reach.h"

/* Names variables; what a variable is called. The caller frees; NULL: no memory. */
void gm_reach_name_variables(struct gm_reach *reach);
char *gm_reach_variable_text(const struct gm_reach *reach, const struct gm_variable *variable);
/* The variable of a vertex; NULL: it is none. */
const struct gm_variable *gm_reach_variable_at(const struct gm_reach *reach, uint32_t vertex);
/* Is its best name a method's `self`? */
bool gm_reach_is_self(const struct gm_reach *reach, const struct gm_variable *variable);
/* "train.py:12": where its frame is; NULL: it has none. The caller frees. */
char *gm_reach_name_place(const struct gm_reach *reach, const struct gm_reach_name *name);
char *gm_reach_name_text(const struct gm_reach *reach, const struct gm_reach_name *name);

#endif
