/*
 * Chunks of memory according to the allocator's own data, for glibc's malloc and CPython's
 * allocator. The words of another allocator do not match, and then nothing is reported.
 */
#include "holders/heap/heap.h"

#include <string.h>

#include "base/cleanup.h"
#include "holders/graph/graph.h"
#include "holders/heap/malloc.h"
#include "holders/heap/malloc_chunks.h"

enum {
	LOOK_BACK = 8192, /* bytes that are searched for the start of a chunk, at a time */
	MAX_LOOK_BACK = 1 << 20,
	MAX_CHECKED = 8,     /* following chunks that must match */
	PREVIOUS_IN_USE = 1, /* glibc, malloc/malloc.c: PREV_INUSE, IS_MMAPPED */
	IS_MAPPED = 2,
};

/* The size of the heap chunk that begins here, according to the size word before it (glibc,
 * malloc/malloc.c: mchunk_size, the low three bits are flags); 0 if this is not a size word. */
size_t gm_heap_bytes(struct gm_holders *graph, uint64_t address)
{
	uint64_t chunk;
	if (!gm_image_try_u64(graph->image, address - 8, &chunk))
		return 0;
	chunk &= ~UINT64_C(7);
	return chunk % 16 == 0 && chunk >= 32 ? chunk - 8 : 0;
}

/* Three ascending words are taken as a vector (begin, end, end of storage) only if a heap chunk
 * begins at the first one and has the size that the third one implies. Otherwise any three
 * ascending pointers would match, which is common. */
bool gm_is_vector(struct gm_holders *graph, const uint64_t words[3], size_t item)
{
	if (words[0] < 0x10000 || (words[0] & 15) || words[0] >= words[1] || words[1] > words[2] ||
	        (words[1] - words[0]) % item != 0 || (words[2] - words[0]) % item != 0)
		return false;
	size_t storage = words[2] - words[0], bytes = gm_heap_bytes(graph, words[0]);
	/* the smallest chunk has 24 usable bytes; a remainder of 16 is too small for a chunk and
	 * stays part of the one before it */
	return bytes >= storage && bytes - storage <= 32;
}

bool gm_is_code(struct gm_holders *graph, uint64_t address)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	return mapping && (mapping->flags & GM_MAPPING_EXEC);
}

/*
 * Objects/obmalloc.c: pools of 16 KiB (4 KiB before 3.10), each with blocks of one size after a
 * pool_header: ref, freeblock, nextpool, prevpool, arenaindex, szidx, nextoffset, maxnextoffset.
 * Free blocks form a list; blocks from nextoffset on have never been allocated.
 */
bool gm_pool_block(struct gm_holders *graph, uint64_t address, struct gm_pool_block *ret)
{
	enum { HEAD = 48, SIZES = 32, FREE = 1, SIZE_INDEX = 9, NEXT = 10, LAST = 11 };
	uint32_t head[HEAD / 4];
	uint64_t pool_size = graph->python ? gm_python_pool_size(graph->python) : 0;
	uint64_t pool = address & ~(pool_size - 1), next;
	if (!graph->python || address - pool < HEAD ||
	        !gm_image_try_read(graph->image, pool, head, sizeof(head)) ||
	        head[SIZE_INDEX] >= SIZES)
		return false;
	uint64_t size = ((uint64_t)head[SIZE_INDEX] + 1) * 16;
	uint64_t most = (pool_size - HEAD) / size;
	if (head[LAST] != pool_size - size || head[0] > most || head[NEXT] < HEAD ||
	        head[NEXT] > pool_size || (head[NEXT] - HEAD) % size != 0)
		return false;
	uint64_t number = (address - pool - HEAD) / size;
	*ret = (struct gm_pool_block){.start = pool + HEAD + number * size, .size = size};
	/* the first word is the number of blocks in use; a pool with none may be reused for another
	 * size */
	ret->is_free = head[0] == 0 || number >= most || ret->start - pool >= head[NEXT];
	memcpy(&next, &head[FREE * 2], sizeof(next));
	for (uint64_t i = 0; i < most && next && !ret->is_free; i++) {
		ret->is_free = next == ret->start;
		if (next - pool >= pool_size || !gm_image_try_u64(graph->image, next, &next))
			break;
	}
	return true;
}

/* The size word says that the chunk before this one is free. Then that chunk's size is stored both
 * at its beginning and at its end. A pointer has low bits of 0 too, and read as a size it often
 * leads to the beginning of another chunk. */
static bool is_behind_free(struct gm_holders *graph, uint64_t start)
{
	uint64_t before, size;
	return gm_image_try_u64(graph->image, start - 16, &before) && before >= 32 &&
	       before % 16 == 0 && before < start - 16 &&
	       gm_image_try_u64(graph->image, start - 8 - before, &size) &&
	       (size & ~UINT64_C(7)) == before;
}

/* Does a heap chunk begin here? Several consistent size words in a row are not a coincidence. A
 * chunk with a mapping of its own begins at a page and has nothing before it (glibc,
 * malloc/malloc.c). */
static bool is_chunk(
        struct gm_holders *graph, const struct gm_mapping *mapping, uint64_t start, uint64_t word)
{
	uint64_t size = word & ~UINT64_C(7), before;
	if (size > mapping->end - start + 16)
		return false;
	if (word & IS_MAPPED)
		return start % 4096 == 16 && size % 4096 == 0 &&
		       gm_image_try_u64(graph->image, start - 16, &before) && before == 0;
	if (!(word & PREVIOUS_IN_USE) && !is_behind_free(graph, start))
		return false;
	for (unsigned i = 0; i < MAX_CHECKED; i++) {
		uint64_t next = 0;
		start += word & ~UINT64_C(7);
		/* the last chunk of an arena has none after it */
		if (start - 16 == mapping->end)
			return i > 0;
		if (!gm_image_try_u64(graph->image, start - 8, &next) ||
		        (i == 0 && !(next & PREVIOUS_IN_USE)) || (next & ~UINT64_C(7)) < 32 ||
		        (next & (8 | IS_MAPPED)) || next >= UINT64_C(1) << 40)
			return false;
		word = next;
	}
	return true;
}

/* The chunks according to malloc's own data, read when first needed. */
static enum gm_malloc_state malloc_state(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	if (!graph->malloc)
		graph->malloc = gm_malloc_read(graph->image);
	if (!graph->malloc) {
		graph->no_memory = true;
		return GM_MALLOC_UNKNOWN;
	}
	return gm_malloc_at(graph->malloc, address, ret_start, ret_size);
}

bool gm_heap_recorded_chunk(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	return malloc_state(graph, address, ret_start, ret_size) == GM_MALLOC_USED;
}

bool gm_heap_is_free(struct gm_holders *graph, uint64_t address)
{
	uint64_t start, size;
	struct gm_pool_block block;
	enum gm_malloc_state state = malloc_state(graph, address, &start, &size);
	if (state != GM_MALLOC_UNKNOWN)
		return state == GM_MALLOC_FREE;
	return gm_pool_block(graph, address, &block) && block.is_free;
}

bool gm_heap_chunk(
        struct gm_holders *graph, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	const struct gm_mapping *mapping = gm_image_find_mapping(graph->image, address);
	struct gm_pool_block block;
	if (!mapping)
		return false;
	enum gm_malloc_state state = malloc_state(graph, address, ret_start, ret_size);
	if (state != GM_MALLOC_UNKNOWN)
		return state == GM_MALLOC_USED;
	if (mapping->path[0] == 0 && gm_pool_block(graph, address, &block)) {
		*ret_start = block.start;
		*ret_size = block.size;
		return !block.is_free;
	}
	_cleanup_free_ uint64_t *words = malloc(LOOK_BACK + 8);
	if (!words)
		return false;
	uint64_t last = address & ~UINT64_C(15),
	         lowest = (mapping->start + 16 + 15) & ~UINT64_C(15);
	for (uint64_t far = 0; far < MAX_LOOK_BACK && last >= lowest && last - lowest >= far;
	        far += LOOK_BACK) {
		uint64_t high = last - far;
		uint64_t low = high - lowest < LOOK_BACK - 16 ? lowest : high - (LOOK_BACK - 16);
		if (!gm_image_try_read(graph->image, low - 8, words, high - low + 8))
			return false;
		for (uint64_t start = high; start >= low; start -= 16) {
			uint64_t word = words[(start - low) / 8], size = word & ~UINT64_C(7);
			if (size < 32 || size % 16 != 0 || start + size - 8 <= address ||
			        !is_chunk(graph, mapping, start, word))
				continue;
			*ret_start = start;
			*ret_size = size - 8;
			return true;
		}
	}
	return false;
}
