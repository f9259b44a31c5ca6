/* Which way to a word of native memory is told. Internal to core/holders. */
#ifndef GM_HOLDERS_OWNER_WAYS_H
#define GM_HOLDERS_OWNER_WAYS_H

#include "holders/unattributed/owner_search.h"

/* The best way to that word of a chunk; `best->rank` is UINT32_MAX where there is none. */
void gm_owner_find_way(const struct gm_owner_search *search, uint32_t number, uint64_t word,
        struct gm_owner_way *best);

#endif
