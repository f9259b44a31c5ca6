/* What holds something in native memory, in words and in JSON. */
#ifndef GM_RENDER_NATIVE_OWNER_H
#define GM_RENDER_NATIVE_OWNER_H

#include <jansson.h>
#include <stdio.h>

#include "holders/native/owner.h"

/* "item 0 of a vector of 2 tensors, held by static 'cache' of libfoo.so". What the target named is
 * written as it is: whoever prints it makes it visible (base/put.h). */
void gm_put_native_owner(const struct gm_native_owner *owner, FILE *out);
/* The same as a text of its own, the caller's to free; NULL: no memory. */
char *gm_native_owner_text(const struct gm_native_owner *owner);
json_t *gm_native_owner_json(const struct gm_native_owner *owner);
/* Reads that JSON back. NULL: it is something else, or there is no memory. The caller releases. */
struct gm_native_owner *gm_native_owner_read(const json_t *array);

#endif
