/*
 * What glibc's malloc knows of its heaps: where each piece begins, how large it is, and whether it is in use. Read from its
 * own records, piece by piece from each heap's first one on, as malloc itself would: a word in memory that was given
 * back is no reference, and what looks like a size word in the midst of a piece is an old one.
 *
 * Pieces that are mapped by themselves, other allocators and damaged heaps are not known here.
 */
#ifndef GM_HOLDERS_MALLOC_H
#define GM_HOLDERS_MALLOC_H

#include "base/array.h"
#include "image/image.h"
#include "torch/map.h"

/* Chunks of a thread's cache of free pieces (malloc/malloc.c: struct tcache_perthread_struct), by how it is made. */
enum {
	GM_MALLOC_LISTS = 76,
	GM_MALLOC_CACHE = 0x300, /* from 2.42 on: 76 numbers of two bytes, 76 lists */
	GM_MALLOC_CACHE_OF_64 = 0x290,
	GM_MALLOC_CACHE_OF_BYTES = 0x250, /* until 2.29: 64 numbers of a byte, 64 lists */
};

/* A heap that was gone through from its first piece to its end. Pieces are named by where malloc's chunk begins, 16 bytes before
 * what malloc() returned. */
struct gm_malloc_heap {
	uint64_t first, end; /* chunks */
	uint64_t last;  /* the last chunk: what is left of the heap, if the arena is at its end */
	uint64_t arena; /* struct malloc_state; 0: not known */
	uint64_t step;
	/* for each `step` bytes from `first` on: the chunk that has the first of them */
	uint64_t *marks;
};

struct gm_malloc {
	struct gm_image *image;
	GM_ARRAY(struct gm_malloc_heap) heaps; /* by address */
	GM_ARRAY(uint64_t) caches; /* chunks that may be a thread's cache of free ones */
	struct gm_map free;        /* chunks that are free and not marked so by the next one */
	size_t mark_count;         /* of all heaps */
	size_t looked_up;          /* links of lists that were followed */
	bool no_memory;
};

enum gm_malloc_state { GM_MALLOC_UNKNOWN, GM_MALLOC_USED, GM_MALLOC_FREE };

/* NULL: no memory. */
struct gm_malloc *gm_malloc_read(struct gm_image *image);
void gm_malloc_destroy(struct gm_malloc *heap);

/* The piece that has the address: the first byte that malloc() returned and how many may be used. */
enum gm_malloc_state gm_malloc_at(
        const struct gm_malloc *heap, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);

/* malloc_free.c: where struct malloc_state has `top`; 0: that is none. */
enum {
	GM_ARENA_TOP = 8, /* from 2.43 on */
	GM_ARENA_TOP_WITH_FAST_LISTS = 96,
};
uint64_t gm_malloc_top_at(struct gm_image *image, uint64_t arena);

/* malloc_free.c: fills `free` from the caches of threads and from the arenas' lists. */
void gm_malloc_find_free(struct gm_malloc *heap);

#endif
