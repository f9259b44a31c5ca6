/* A chain of references in words: "item 3 of list: global 'history' of module __main__". */
#ifndef GM_RENDER_CHAIN_H
#define GM_RENDER_CHAIN_H

#include <stdio.h>

#include "holders/holders.h"

/* From the tensor outwards. What the target named is written as it is: whoever prints it makes it
 * visible (base/put.h). The caller frees; NULL: no memory. */
char *gm_chain_text(const struct gm_holder *holder);
/* "proven", "plausible", "stale": as in the JSON. */
const char *gm_chain_class_name(enum gm_reference_class class);

#endif
