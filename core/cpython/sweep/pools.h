/*
 * Python's objects in its allocator's pools, which contain consecutive blocks of one size. Walking
 * the pools finds most objects in the order of their addresses, while the collector's lists jump
 * through the whole heap, one object at a time.
 *
 * A block counts as an object because of its contents. This may be wrong, and objects outside pools
 * (with more than 512 bytes, or from another allocator) are not found: the caller compares the
 * result with the links of the lists (sweep.c).
 */
#ifndef GM_CPYTHON_POOLS_H
#define GM_CPYTHON_POOLS_H

#include "cpython/sweep/walker.h"
#include "image/image.h"
#include "image/kept.h"

enum {
	GM_CHUNK_POOL_MOST = GM_KEPT_CHUNK / 32, /* smaller blocks hold none */
	GM_CHUNK_POOLS = GM_KEPT_CHUNK / 4096,
	GM_POOL_FIRST = 48,
};

/* An object that the collector tracks, and the next one in its list (or what its list begins with);
 * or one that it does not track (`next` is 0) and that is no string, number or code. */
struct gm_pool_object {
	uint64_t object, next;
	bool special; /* of a type that the walk names so */
};

/* A pool whose blocks all were examined. */
struct gm_pool_place {
	uint64_t address;
	uint32_t block; /* bytes of one; the first begins at GM_POOL_FIRST */
};

/* The objects of a chunk, by address, and its pools; ret_objects has room for GM_CHUNK_POOL_MOST,
 * ret_pools for GM_CHUNK_POOLS. Returns the number of objects. */
size_t gm_py_pool_objects(struct gm_walker *walker, const struct gm_kept_chunk *chunk,
        struct gm_pool_object *ret_objects, struct gm_pool_place *ret_pools,
        size_t *ret_pool_count);
/* Are there pools in [start, end) of a mapping, 16 MiB at most? Some places of a large mapping are
 * looked at. */
bool gm_py_may_have_pools(
        struct gm_python *python, const struct gm_mapping *mapping, uint64_t start, uint64_t end);
/* Is there a pool in these chunks, by its head alone? */
bool gm_py_has_pool(const struct gm_python *python, const struct gm_kept_chunk *chunk);
/* Is it tracked, by its bytes from the collector's links on? `size` at least GM_POOL_HEAD. */
bool gm_py_is_tracked(struct gm_walker *walker, const uint8_t *links);

enum { GM_POOL_HEAD = 32 /* the collector's links, reference count, type */ };

#endif
