/*
 * A cache of memory for one question: chunks of 256 KiB of a program's writable memory, each read
 * completely when something in it is first needed. So the readers that go through the same heap
 * (the collector's lists, the objects, the scan for C++ objects) read it only once. The cache is
 * bounded; memory beyond the bound, and other memory, is read directly. A core is a file, so its
 * chunks are used in place and take no memory.
 *
 * The cache is valid for one moment: its user destroys it before the target may run again. All
 * functions except create and destroy may be used by several threads at once.
 */
#ifndef GM_IMAGE_KEPT_H
#define GM_IMAGE_KEPT_H

#include <stdatomic.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_image;

enum {
	GM_KEPT_SHIFT = 18,
	GM_KEPT_CHUNK = 1 << GM_KEPT_SHIFT,
	GM_KEPT_PAGE = 4096,
	GM_KEPT_PAGES = GM_KEPT_CHUNK / GM_KEPT_PAGE,
};

struct gm_kept_chunk {
	_Atomic(uint64_t) key; /* address >> shift, plus 1; 0: free. Set last */
	const uint8_t *bytes;  /* of the chunk's first address; those of `there` may be read */
	uint64_t there;        /* a bit for each page */
	uint64_t unread;       /* those that were touched and cannot be read */
};

struct gm_kept {
	struct gm_kept_chunk *chunks; /* by hash */
	size_t capacity, count;       /* a power of two, and how many are in it */
	uint8_t *memory;              /* of chunks that are copied; touched as they are read */
	bool views;                   /* the image lends its bytes: those are not copied */
	size_t most;
	atomic_size_t used;
	struct gm_image *image;
	void *locks;
};

/* Keeps up to a part of what the image's program has touched, see kept.c. NULL: there is nothing to
 * keep, or no memory: then all is read as without. */
struct gm_kept *gm_kept_create(struct gm_image *image);
void gm_kept_destroy(struct gm_kept *kept);

/* Reads the chunk of an address. False: not kept. */
bool gm_kept_fill(struct gm_kept *kept, uint64_t address);

/* The chunk of an address, if it is there. */
static inline const struct gm_kept_chunk *gm_kept_chunk(
        const struct gm_kept *kept, uint64_t address)
{
	uint64_t key = (address >> GM_KEPT_SHIFT) + 1;
	for (size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32);; i++) {
		struct gm_kept_chunk *chunk = &kept->chunks[i & (kept->capacity - 1)];
		uint64_t found = atomic_load_explicit(&chunk->key, memory_order_acquire);
		if (found == key)
			return chunk;
		if (found == 0)
			return NULL;
	}
}

static inline uint64_t gm_kept_key(const struct gm_kept_chunk *chunk)
{
	return atomic_load_explicit(&chunk->key, memory_order_relaxed);
}

/* `size` bytes (at most a page) at an address that the chunk stands for, if they are there. */
static inline const uint8_t *gm_kept_chunk_have(
        const struct gm_kept_chunk *chunk, uint64_t address, size_t size)
{
	size_t skip = address & (GM_KEPT_CHUNK - 1);
	if (skip + size > GM_KEPT_CHUNK)
		return NULL;
	uint64_t pages = UINT64_C(1) << skip / GM_KEPT_PAGE |
	                 UINT64_C(1) << (skip + size - 1) / GM_KEPT_PAGE;
	return (chunk->there & pages) == pages ? chunk->bytes + skip : NULL;
}

/* `size` bytes (at most a page) at an address, if they are there, in one chunk. `kept` may be NULL.
 * `near`: the chunk that was asked for before. */
static inline const uint8_t *gm_kept_have_near(const struct gm_kept *kept, uint64_t address,
        size_t size, const struct gm_kept_chunk **near)
{
	const struct gm_kept_chunk *chunk = *near;
	if (!kept)
		return NULL;
	if (!chunk || gm_kept_key(chunk) != (address >> GM_KEPT_SHIFT) + 1) {
		chunk = gm_kept_chunk(kept, address);
		if (!chunk)
			return NULL;
		*near = chunk;
	}
	return gm_kept_chunk_have(chunk, address, size);
}

static inline const uint8_t *gm_kept_have(const struct gm_kept *kept, uint64_t address, size_t size)
{
	const struct gm_kept_chunk *near = NULL;
	return gm_kept_have_near(kept, address, size, &near);
}

#endif
