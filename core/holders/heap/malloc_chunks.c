#include "holders/heap/malloc_chunks.h"

#include "base/search.h"

static const struct gm_malloc_heap *heap_at(const struct gm_malloc *heap, uint64_t address)
{
	size_t low = gm_partition_point(
	        heap->heaps.count, middle, heap->heaps.items[middle].first <= address);
	const struct gm_malloc_heap *found = low ? &heap->heaps.items[low - 1] : NULL;
	return found && address < found->end ? found : NULL;
}

enum gm_malloc_state gm_malloc_at(
        const struct gm_malloc *heap, uint64_t address, uint64_t *ret_start, uint64_t *ret_size)
{
	/* the last 8 bytes of a chunk are in the next one, which uses them only if this one is free
	 * */
	uint64_t place = address - 8, size = 0, word;
	const struct gm_malloc_heap *one = heap_at(heap, place);
	if (!one)
		return GM_MALLOC_UNKNOWN;
	uint64_t at = one->marks[(place - one->first) / one->step];
	for (;; at += size) {
		if (!gm_image_try_u64(heap->image, at + 8, &word))
			return GM_MALLOC_UNKNOWN;
		size = word & ~(uint64_t)GM_CHUNK_FLAGS;
		if (size < GM_CHUNK_LEAST || size > one->end - at) /* the end marker of the heap, or
		                                                      the chunk has changed since */
			return GM_MALLOC_UNKNOWN;
		if (place < at + size)
			break;
	}
	*ret_start = at + 16;
	*ret_size = size - 8;
	if (address < at + 16 || gm_map_find(&heap->free, at) || at == one->last)
		return GM_MALLOC_FREE;
	if (!gm_image_try_u64(heap->image, at + size + 8, &word))
		return GM_MALLOC_UNKNOWN;
	return word & GM_CHUNK_PREVIOUS_IN_USE ? GM_MALLOC_USED : GM_MALLOC_FREE;
}
