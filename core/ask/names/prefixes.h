/*
 * Which module's a path is of, where there are several that no other module has (a generator and a
 * discriminator, a model and its teacher). The one that is trained needs no prefix if it is the
 * only one; the others have the name of their variable, else of their class.
 */
#ifndef GM_ASK_NAMES_PREFIXES_H
#define GM_ASK_NAMES_PREFIXES_H

#include "ask/names/walk.h"

/* At the end. */
void gm_name_walk_prefixes(struct gm_name_walk *walk);

#endif
