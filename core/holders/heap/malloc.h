/*
 * What glibc's malloc knows of its heaps: where each chunk begins, how large it is, and whether it
 * is in use. Read from its own records, chunk by chunk from each heap's first one on, as malloc
 * itself would: a word in memory that was released is no reference, and what looks like a size
 * word in the midst of a chunk is an old one.
 *
 * Chunks that are mapped by themselves, other allocators and damaged heaps are not known here.
 */
#ifndef GM_HOLDERS_MALLOC_H
#define GM_HOLDERS_MALLOC_H

#include "holders/heap/malloc_chunks.h"

/* NULL: no memory. */
struct gm_malloc *gm_malloc_read(struct gm_image *image);
void gm_malloc_destroy(struct gm_malloc *heap);

#endif
