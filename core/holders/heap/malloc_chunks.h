/* malloc's heaps as they were read, and the chunk that has an address. */
#ifndef GM_HOLDERS_MALLOC_CHUNKS_H
#define GM_HOLDERS_MALLOC_CHUNKS_H

#include "base/array.h"
#include "image/image.h"
#include "base/map.h"

/* A chunk's size word. */
enum {
	GM_CHUNK_FLAGS = 7,
	GM_CHUNK_PREVIOUS_IN_USE = 1,
	GM_CHUNK_LEAST = 32, /* MINSIZE */
};

/* A heap that was gone through from its first chunk to its end. Chunks are named by where malloc's
 * chunk begins, 16 bytes before what malloc() returned. */
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

/* The chunk that has the address: the first byte that malloc() returned and how many may be
 * used. */
enum gm_malloc_state gm_malloc_at(
        const struct gm_malloc *heap, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);

#endif
