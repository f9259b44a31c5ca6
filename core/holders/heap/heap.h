/* What the heap itself tells of an address. Internal to core/holders. */
#ifndef GM_HOLDERS_HEAP_H
#define GM_HOLDERS_HEAP_H

#include "holders/graph/graph.h"

/* Bytes of the chunk of heap that begins here; 0: none does. */
size_t gm_heap_bytes(struct gm_holders *graph, uint64_t address);
/* The chunk of heap in use that has the address: its first byte and how many it has. */
bool gm_heap_chunk(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);
/* The same, only where malloc's own records of all chunks around it say so. */
bool gm_heap_recorded_chunk(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size);
/* Is it in memory that malloc or CPython's allocator was given back? What lies there is no
 * reference. */
bool gm_heap_is_free(struct gm_holders *graph, uint64_t address);
/* A block of CPython's own allocator, of which a pool has many. False: the address is in no
 * pool. */
struct gm_pool_block {
	uint64_t start, size;
	bool is_free;
};
bool gm_pool_block(struct gm_holders *graph, uint64_t address, struct gm_pool_block *ret);
/* Is it a std::vector's begin, end, end of storage? */
bool gm_is_vector(struct gm_holders *graph, const uint64_t words[3], size_t item);
/* Is it an address of code, as a function's is? */
bool gm_is_code(struct gm_holders *graph, uint64_t address);

#endif
