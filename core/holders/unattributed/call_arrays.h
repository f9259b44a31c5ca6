/* Arguments of calls that are in progress. Internal to core/holders. */
#ifndef GM_HOLDERS_CALL_ARRAYS_H
#define GM_HOLDERS_CALL_ARRAYS_H

#include "holders/unattributed/unattributed.h"
#include "holders/heap/stacks.h"

/* Is the word an argument in CPython's own array of a call in progress, which owns it? `live`: an
 * empty map, the same for all words of one search. */
bool gm_is_call_argument(
        struct gm_holders *graph, struct gm_stacks *stacks, struct gm_map *live, uint64_t address);

#endif
