/* What PyTorch's allocator would do with a request. */
#ifndef GM_ASK_REQUEST_H
#define GM_ASK_REQUEST_H

#include "ask/target/memory.h"

/* Holes that a request may not use, or that are too small for it: how many, of how many bytes, the
 * largest. */
struct gm_holes {
	uint64_t bytes, largest;
	size_t count;
};

/*
 * What PyTorch would do with a request (CUDACachingAllocator.cpp of 2.11, without
 * roundup_power2_divisions): take a hole of the right pool and stream, else ask CUDA for a segment.
 */
struct gm_request {
	uint64_t bytes, stream;
	uint64_t rounded; /* of the block */
	uint64_t segment; /* that PyTorch would ask CUDA for */
	bool small;
	bool fits;
	uint64_t at; /* the hole it would get: the smallest that does */
	struct gm_holes too_small, other_stream, other_pool, private_pool, unsplittable;
};
void gm_memory_request(const struct gm_memory *memory, uint64_t bytes, uint64_t stream,
        struct gm_request *ret_request);
/* What PyTorch asks CUDA for when no hole serves a request of so many bytes. */
uint64_t gm_segment_size(uint64_t bytes);
/* Bytes in holes, private pools' left out, that expandable segments would release and use
 * elsewhere. */
uint64_t gm_memory_movable(const struct gm_memory *memory);

#endif
