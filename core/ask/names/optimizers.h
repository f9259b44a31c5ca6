/* Names of what optimizers have: parameters of no module, and their state. */
#ifndef GM_ASK_NAMES_OPTIMIZERS_H
#define GM_ASK_NAMES_OPTIMIZERS_H

#include "ask/names/walk.h"

/* After the modules; tells which of their roots are trained. */
void gm_name_walk_optimizers(struct gm_name_walk *walk);

#endif
