/*
 * Memory that was read, for going through a large heap: a cache of many megabytes without locks,
 * for one thread and one question. Things near each other are asked for one after another (by
 * address, or in the order in which they were made), so pages come together, and more of them where
 * the last ones were of use.
 */
#ifndef GM_CPYTHON_STORE_H
#define GM_CPYTHON_STORE_H

#include "image/image.h"
#include "image/kept.h"

enum {
	GM_STORE_FRAME = 64 << 10,
	GM_STORE_CAPACITY = 4096, /* the most that is asked for at once */
	GM_STORE_SLOTS =
	        8192, /* many more than frames: two places that are in use rarely share one */
	GM_STORE_NO_FRAME = UINT16_MAX,
};

struct gm_store_slot {
	uint64_t key;   /* address / frame size, plus 1; 0: empty */
	uint16_t there; /* a bit for each of its pages */
	uint16_t frame; /* where in `bytes` */
};

struct gm_store {
	struct gm_image *image;
	const struct gm_kept_chunk
	        *here; /* chunks that the caller has at hand, one after another */
	size_t here_count;
	struct gm_kept *kept;        /* what the image keeps for all threads; may be NULL */
	struct gm_borrowed borrowed; /* what the image lent last; from 0 to 0: nothing yet */
	uint8_t *bytes;              /* all frames'; touched as they are used */
	uint16_t *slot_of;           /* of each frame */
	size_t frames;
	size_t next; /* frames are taken in turn */
	struct gm_store_slot slots[GM_STORE_SLOTS];
	uint8_t scratch[GM_STORE_CAPACITY];
};

/* `frames`: how much it may keep. False: no memory. */
bool gm_store_init(struct gm_store *store, struct gm_image *image, size_t frames);
void gm_store_deinit(struct gm_store *store);
const uint8_t *gm_store_miss(struct gm_store *store, uint64_t address, size_t size);

static inline size_t gm_store_slot_number(uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 51); /* 13 bits: GM_STORE_SLOTS */
}

/* The bytes at an address where they are at hand without reading, else NULL. Valid while `here` and
 * `kept` are. */
static inline const uint8_t *gm_store_have_near(
        struct gm_store *store, uint64_t address, size_t size, const struct gm_kept_chunk **near)
{
	if (store->here) {
		uint64_t number = (address >> GM_KEPT_SHIFT) + 1 - gm_kept_key(store->here);
		if (number < store->here_count)
			return gm_kept_chunk_have(&store->here[number], address, size);
	}
	return gm_kept_have_near(store->kept, address, size, near);
}

static inline const uint8_t *gm_store_have(struct gm_store *store, uint64_t address, size_t size)
{
	const struct gm_kept_chunk *near = NULL;
	return gm_store_have_near(store, address, size, &near);
}

/* The bytes at an address, at most GM_STORE_CAPACITY; NULL: they cannot be read. Valid until the
 * next call. */
static inline const uint8_t *gm_store_at(struct gm_store *store, uint64_t address, size_t size)
{
	const uint8_t *kept = gm_store_have(store, address, size);
	if (kept)
		return kept;
	if (address - store->borrowed.start < store->borrowed.end - store->borrowed.start &&
	        size <= store->borrowed.end - address)
		return store->borrowed.bytes + (address - store->borrowed.start);
	uint64_t key = address / GM_STORE_FRAME + 1;
	const struct gm_store_slot *slot = &store->slots[gm_store_slot_number(key)];
	size_t skip = address % GM_STORE_FRAME;
	/* the pages of the first and the last byte; size is at most a page */
	uint32_t pages = 1u << skip / 4096 | 1u << (skip + size - 1) / 4096;
	if (slot->key == key && (slot->there & pages) == pages)
		return store->bytes + (size_t)slot->frame * GM_STORE_FRAME + skip;
	return gm_store_miss(store, address, size);
}

#endif
