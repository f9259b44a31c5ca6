/*
 * The chunks of glibc's malloc: where each begins, its size, and whether it is in use. They are
 * read from malloc's own metadata, from each heap's first chunk on, as malloc itself would do: a
 * word in freed memory is not a reference, and something that looks like a size word in the middle
 * of a chunk is stale.
 *
 * Separately mapped chunks, other allocators and damaged heaps are not supported.
 */
#ifndef GM_HOLDERS_MALLOC_H
#define GM_HOLDERS_MALLOC_H

#include "holders/heap/malloc_chunks.h"

/* NULL: no memory. */
struct gm_malloc *gm_malloc_read(struct gm_image *image);
void gm_malloc_destroy(struct gm_malloc *heap);

#endif
