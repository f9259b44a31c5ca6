/* Chunks of heap that are free although the chunk after them says that they are in use. */
#ifndef GM_HOLDERS_MALLOC_FREE_H
#define GM_HOLDERS_MALLOC_FREE_H

#include "holders/heap/malloc_chunks.h"

/* Chunks of a thread's cache of free chunks (malloc/malloc.c: struct tcache_perthread_struct), by
 * how it is made. */
enum {
	GM_MALLOC_LISTS = 76,
	GM_MALLOC_CACHE = 0x300, /* from 2.42 on: 76 numbers of two bytes, 76 lists */
	GM_MALLOC_CACHE_OF_64 = 0x290,
	GM_MALLOC_CACHE_OF_BYTES = 0x250, /* until 2.29: 64 numbers of a byte, 64 lists */
};

/* Where struct malloc_state has `top`; 0: that is none. */
enum {
	GM_ARENA_TOP = 8, /* from 2.43 on */
	GM_ARENA_TOP_WITH_FAST_LISTS = 96,
};
uint64_t gm_malloc_top_at(struct gm_image *image, uint64_t arena);

/* Fills `free` from the caches of threads and from the arenas' lists. */
void gm_malloc_find_free(struct gm_malloc *heap);

#endif
