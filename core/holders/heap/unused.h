/* Words that are no references, whatever they say. Internal to core/holders. */
#ifndef GM_HOLDERS_UNUSED_H
#define GM_HOLDERS_UNUSED_H

#include "holders/graph/graph.h"

/* Is the word where nothing is kept? Old values stay there. */
bool gm_is_unused(struct gm_holders *graph, uint64_t address);
/* Is the word in an object of ctypes (c_void_p, a pointer, a structure)? It may be the address of a
 * tensor, and never counts as a reference to one. */
bool gm_is_in_ctypes_object(struct gm_holders *graph, uint64_t address);

#endif
