/* What variables are called. Internal to core/holders. */
#ifndef GM_HOLDERS_VARIABLES_H
#define GM_HOLDERS_VARIABLES_H

#include "holders/retained/reach.h"
#include "holders/retained/retained_name.h"

void gm_reach_name_variables(struct gm_reach *reach);
/* The number of a label, from 1; 0: no memory. */
uint32_t gm_reach_label(
        struct gm_reach *reach, enum gm_retained_form form, const char *name, const char *of);
/* What a variable is called, and what one of its names is; 0: no memory. */
/* The same of what C++ holds; an owner of NULL: no memory. */
uint32_t gm_reach_native_label(struct gm_reach *reach, struct gm_native_owner *owner);
uint32_t gm_reach_variable_label(struct gm_reach *reach, const struct gm_variable *variable);
uint32_t gm_reach_name_label(struct gm_reach *reach, const struct gm_reach_name *name);
/* A label as a name of its own, which the caller deinits. False: no memory. */
bool gm_reach_label_name(
        const struct gm_reach *reach, uint32_t label, struct gm_retained_name *ret_name);
/* The variable of a vertex; NULL: it is none. */
const struct gm_variable *gm_reach_variable_at(const struct gm_reach *reach, uint32_t vertex);
/* Is its best name a method's `self`? */
bool gm_reach_is_self(const struct gm_reach *reach, const struct gm_variable *variable);
/* "train.py:12": where its frame is; NULL: it has none. The caller frees. */
char *gm_reach_name_place(const struct gm_reach *reach, const struct gm_reach_name *name);

#endif
