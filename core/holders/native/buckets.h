/* The buckets of DistributedDataParallel. Internal to core/holders. */
#ifndef GM_HOLDERS_BUCKETS_H
#define GM_HOLDERS_BUCKETS_H

#include "holders/graph/graph.h"

/* Which part of a DDP's bucket a word is: bucket_views_in[2] of bucket 0. `index`: of the item in
 * the vector that the word begins, UINT64_MAX: it leads elsewhere. False: `buckets` are none, and
 * nothing was stored. The name is static. */
bool gm_bucket_part(struct gm_holders *graph, uint64_t reducer, uint64_t buckets, uint64_t word,
        uint64_t index, struct gm_native_part *ret_part);

#endif
