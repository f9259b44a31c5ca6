/*
 * What-if: the allocated bytes of one device over a recording whose blocks are other than they
 * were: released earlier, of another size, not there at all, there once more. Internal to core/ask.
 *
 * Each block of the recording has a life [begin, end) and a size, and each of them may be changed.
 * Spans add to that what one life cannot tell: a block that is there a second time, or not there
 * for a while, or bytes that are no block's. A span of a block has the block's size, whatever it is
 * by then, so measures can be put on top of one another. The replay enters each life and span as
 * two differences, in a table by event, and adds them up: one reading of the blocks and one of the
 * events.
 *
 * An event's free happens before anything else of that event: a life that ends where another begins
 * does not overlap with it.
 */
#ifndef GM_ASK_WHATIF_H
#define GM_ASK_WHATIF_H

#include "base/array.h"
#include "model/categories.h"
#include "model/model.h"

struct gm_whatif_span {
	uint32_t block; /* GM_NO_BLOCK: `bytes` */
	bool absent;    /* the bytes are not there from `from` to `until` */
	uint32_t from, until;
	uint64_t bytes;
};

struct gm_whatif {
	const struct gm_model *model;
	size_t device;
	uint32_t event_count;
	uint32_t *begin, *end; /* by block; begin >= end: it is not there */
	uint64_t *size;        /* bytes */
	size_t block_count;
	GM_ARRAY(struct gm_whatif_span) spans;
	uint64_t changes; /* how many there were */
	bool no_memory;
};

/* As it was recorded. */
struct gm_error *gm_whatif_init(
        struct gm_whatif *whatif, const struct gm_model *model, size_t device);
struct gm_error *gm_whatif_copy(const struct gm_whatif *from, struct gm_whatif *ret_whatif);
void gm_whatif_deinit(struct gm_whatif *whatif);

/* The block is released at an event, if it lived longer. */
void gm_whatif_end(struct gm_whatif *whatif, uint32_t block, uint32_t event);
void gm_whatif_resize(struct gm_whatif *whatif, uint32_t block, uint64_t size);
/* Bytes of no block are there in [from, until). */
void gm_whatif_add(struct gm_whatif *whatif, uint32_t from, uint32_t until, uint64_t bytes);
/* The block is there in [from, until) too. */
void gm_whatif_again(struct gm_whatif *whatif, uint32_t block, uint32_t from, uint32_t until);
/* The block is not there in [from, until). */
void gm_whatif_absent(struct gm_whatif *whatif, uint32_t block, uint32_t from, uint32_t until);
bool gm_whatif_is_there(const struct gm_whatif *whatif, uint32_t block, uint32_t event);

/* A size as the allocator hands it out: a multiple of 512 bytes. */
static inline uint64_t gm_whatif_round(uint64_t bytes)
{
	return bytes > UINT64_MAX - 511 ? bytes : (bytes + 511) & ~(uint64_t)511;
}

struct gm_whatif_peak {
	uint32_t event; /* the first with that many bytes; GM_NO_EVENT: none were allocated */
	uint64_t bytes;
	uint64_t by_category[GM_CATEGORY_COUNT]; /* of blocks; what was added is in none */
	uint64_t added;
	uint32_t largest; /* block; GM_NO_BLOCK: none */
};
/* The peak; `categories`: as in gm_model_categories(). */
struct gm_error *gm_whatif_peak(const struct gm_whatif *whatif,
        const struct gm_categories *categories, struct gm_whatif_peak *ret_peak);

#endif
