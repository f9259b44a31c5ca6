/*
 * What one device's memory was over the events of a recording, by category, for pictures of it.
 *
 * A bucket is so many events that follow one another. It has the sums as they were after that of
 * its events after which most was allocated. So a picture of buckets shows each peak, and a bucket
 * is a state that was there, not a mix of several.
 */
#ifndef GM_ASK_RECORDING_BUCKETS_H
#define GM_ASK_RECORDING_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/error.h"
#include "model/categories.h"
#include "model/model.h"

/* The last sum is what is allocated and in no block: blocks from before the recording. */
enum { GM_BUCKET_SUMS = GM_CATEGORY_COUNT + 1, GM_BUCKET_REST = GM_CATEGORY_COUNT };

struct gm_bucket {
	uint32_t at; /* the event, counted from the bucket's first */
	bool filled; /* always, once they are found */
	uint64_t allocated;
	uint64_t sums[GM_BUCKET_SUMS];
};

struct gm_bucket_change {
	uint32_t event;
	uint64_t bytes;
};

struct gm_buckets {
	uint32_t each; /* events of a bucket; the last one may have fewer */
	struct gm_bucket *items;
	size_t count;
	/* From these events on so much is reserved, and in no block. */
	GM_ARRAY(struct gm_bucket_change) reserved, rest;
	/* Out-of-memory errors, and what was asked for. */
	GM_ARRAY(struct gm_bucket_change) oom;
	bool no_memory;
};

/* All events of the recording, in buckets of `each`: those of other devices count too. */
struct gm_error *gm_buckets_find(const struct gm_model *model, size_t device,
        const struct gm_categories *categories, uint32_t each, struct gm_buckets *ret_buckets);
void gm_buckets_deinit(struct gm_buckets *buckets);

#endif
