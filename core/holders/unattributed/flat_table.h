/* The tables of PyTorch's ska::flat_hash_map and ska::flat_hash_set. Internal to core/holders. */
#ifndef GM_HOLDERS_FLAT_TABLE_H
#define GM_HOLDERS_FLAT_TABLE_H

#include "holders/unattributed/owner_search.h"

/* Is the chunk such a table's memory, and is the word, at that address, in an entry that is not in
 * use? What lies there was left by others. */
bool gm_is_in_unused_entry(
        const struct gm_owner_search *search, const struct gm_owner_chunk *chunk, uint64_t word);

#endif
