/*
 * What the heap itself tells of a piece of memory. glibc's malloc only: another one's size words do not fit, and then
 * nothing is told.
 */
#include "holders/graph.h"

/* How many bytes the piece of heap that begins here has, by the heap's own size word before it (glibc,
 * malloc/malloc.c: mchunk_size, low three bits flags); 0: that is no such word. */
size_t gm_heap_bytes(struct gm_holders *graph, uint64_t address)
{
	uint64_t chunk;
	if (!gm_image_try_u64(graph->image, address - 8, &chunk))
		return 0;
	chunk &= ~UINT64_C(7);
	return chunk % 16 == 0 && chunk >= 32 ? chunk - 8 : 0;
}

/* Three ascending words are a vector (begin, end, end of storage) only if a piece of heap begins at the
 * first and is as large as the third says: any three pointers ascend often enough. */
bool gm_is_vector(struct gm_holders *graph, const uint64_t words[3], size_t item)
{
	if (words[0] < 0x10000 || (words[0] & 15) || words[0] >= words[1] || words[1] > words[2] ||
	        (words[1] - words[0]) % item != 0 || (words[2] - words[0]) % item != 0)
		return false;
	size_t storage = words[2] - words[0], bytes = gm_heap_bytes(graph, words[0]);
	return bytes >= storage && bytes - storage < 32;
}
