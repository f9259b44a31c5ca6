/* Attributes. Each function takes as many edges as make one thing; false: it is not that thing.
 * Internal to core/holders. */
#ifndef GM_HOLDERS_DESCRIBE_ATTRIBUTE_H
#define GM_HOLDERS_DESCRIBE_ATTRIBUTE_H

#include "holders/describe/description.h"

/*
 * Is the next edge (after `back` ones) an attribute: an inline value, a slot, or an entry of an
 * instance's dict? Then its name (the caller frees), its owner and how many edges that is.
 */
size_t gm_describe_attribute_at(
        struct gm_description *description, size_t back, char **ret_name, uint64_t *ret_owner);
/* "Linear", or "class Linear" where the object is a class. Caller frees; NULL: no memory. */
char *gm_describe_owner_text(struct gm_description *description, uint64_t object);
void gm_describe_attribute(
        struct gm_description *description, const char *name, uint64_t owner, size_t used);
bool gm_describe_module_part(struct gm_description *description, const char *name);
bool gm_describe_optimizer_state(struct gm_description *description, const char *name);

#endif
