/* Words that are no references, whatever they say. Internal to core/holders. */
#ifndef GM_HOLDERS_UNUSED_H
#define GM_HOLDERS_UNUSED_H

#include "holders/graph/graph.h"

/* Is the word where nothing is kept? Old values stay there. */
bool gm_is_unused(struct gm_holders *graph, uint64_t address);

#endif
