/* The buckets of DistributedDataParallel. Internal to core/holders. */
#ifndef GM_HOLDERS_BUCKETS_H
#define GM_HOLDERS_BUCKETS_H

#include "holders/graph/graph.h"

/* What a word of a DDP's bucket is: "bucket_views_in[2] of bucket 0". `index`: of the item in the
 * vector that the word begins, UINT64_MAX: it leads elsewhere. NULL: `buckets` are none. Caller
 * frees. */
char *gm_bucket_text(struct gm_holders *graph, uint64_t reducer, uint64_t buckets, uint64_t word,
        uint64_t index);

#endif
