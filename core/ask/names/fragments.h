/*
 * Names of what flat tensors hold: DeepSpeed's optimizers have one copy in fp32 of many parameters,
 * of which a rank has a part, and each parameter knows its own fragment of it.
 */
#ifndef GM_ASK_NAMES_FRAGMENTS_H
#define GM_ASK_NAMES_FRAGMENTS_H

#include "ask/names/walk.h"

/* After the modules, before the optimizers: the fragments of the parameters that have a name. */
void gm_name_walk_fragments(struct gm_name_walk *walk);
/* The fragments of the gradient of an optimizer's parameter, which may be such a flat copy. */
void gm_name_walk_fragment_gradients(struct gm_name_walk *walk, uint64_t parameter);

#endif
