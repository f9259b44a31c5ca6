/*
 * A cache of the target's pages, for the many small reads of one question or one stop.
 *
 * Direct-mapped: a page can be in one slot only, so that a look-up is one comparison; collisions
 * only cause another read. Each slot has the generation in which it was filled, and incrementing
 * the generation clears the cache: a recorder does that at every stop, where clearing 2,048 slots
 * would cost more than the stop itself. The slots' memory is one lazily touched mapping. Stripes of
 * locks make it usable by several threads at once.
 */
#ifndef GM_IMAGE_PAGE_CACHE_H
#define GM_IMAGE_PAGE_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	GM_PAGE_SIZE = 4096, /* x86-64 */
	GM_PAGE_CACHE_SLOTS = 2048,
	GM_PAGE_CACHE_LOCKS = 16,
};

struct gm_page_slot {
	uint64_t page; /* address of the page */
	uint64_t generation;
};

struct gm_page_cache {
	uint8_t *data; /* GM_PAGE_CACHE_SLOTS pages */
	struct gm_page_slot *slots;
	atomic_uint_fast64_t generation;
	pthread_mutex_t locks[GM_PAGE_CACHE_LOCKS];
};

/* Reads one whole page of the target; false: it cannot be read. */
typedef bool (*gm_page_fill)(void *context, uint64_t page, void *buffer);

bool gm_page_cache_init(struct gm_page_cache *cache); /* false: no memory */
void gm_page_cache_deinit(struct gm_page_cache *cache);
void gm_page_cache_invalidate(struct gm_page_cache *cache);
/* Copies `size` bytes that lie within one page; false: the page cannot be read. */
bool gm_page_cache_read(struct gm_page_cache *cache, uint64_t address, void *buffer, size_t size,
        gm_page_fill fill, void *context);

#endif
