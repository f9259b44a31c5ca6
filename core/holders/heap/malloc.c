/*
 * glibc's heaps, from 2.26 to 2.43 (malloc/malloc.c, malloc/arena.c): consecutive chunks, each with
 * its size at +8, whose low bits show whether the chunk before it is in use. The main arena's heap
 * is the program break; the others have their own mappings, which begin at a multiple of 64 MiB
 * with a struct heap_info. A heap is accepted only if its chunks lead exactly to its end.
 */
#include "holders/heap/malloc.h"
#include "holders/heap/malloc_free.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum {
	STEP = 4096,
	MAX_STEPS = 1 << 20, /* most chunks of one heap; in a larger heap they are larger */
	MAX_MARKS = 1 << 23, /* most chunks in total; further heaps are ignored */
	BUFFER = 1 << 18,
	HEAP_ALIGNMENT = 1 << 26, /* HEAP_MAX_SIZE on 64 bits */
	ARENA_BEHIND_TOP = 2104,  /* size of struct malloc_state from `top` on, since 2.27 */
	MOST_INFO = 256,          /* struct heap_info, before the arena or the first chunk */
	MAX_CACHES = 1 << 16,
	MAX_HEAPS = 1 << 14,
};

/* Reads the words of a heap while its chunks are followed. */
struct window {
	struct gm_image *image;
	unsigned char *bytes;
	uint64_t start;
	size_t size;
};

static bool word_at(struct window *window, uint64_t address, uint64_t *ret_word)
{
	if (address < window->start || address + 8 > window->start + window->size) {
		window->start = address;
		window->size =
		        gm_image_read_some(window->image, address, window->bytes, BUFFER) & ~7U;
		if (window->size < 8)
			return false;
	}
	memcpy(ret_word, window->bytes + (address - window->start), sizeof(*ret_word));
	return true;
}

static bool has_cache_size(uint64_t size)
{
	return size == GM_MALLOC_CACHE || size == GM_MALLOC_CACHE_OF_64 ||
	       size == GM_MALLOC_CACHE_OF_BYTES;
}

/* A heap that cannot grow ends with a chunk of 16 bytes and one of size 0 (malloc/malloc.c,
 * sysmalloc). */
static bool is_fence(uint64_t chunk, uint64_t size, uint64_t end)
{
	return (size == 16 || size == 0) && end - chunk <= 48;
}

static bool walk(struct gm_malloc *heap, struct window *window, struct gm_malloc_heap *ret)
{
	uint64_t at = ret->first, end = ret->end, word;
	ret->step = (end - at) / MAX_STEPS > STEP ? (end - at) / MAX_STEPS : STEP;
	size_t steps = (size_t)((end - at) / ret->step + 1), done = 0, caches = heap->caches.count;
	if (heap->mark_count + steps > MAX_MARKS)
		return false;
	ret->marks = malloc(steps * sizeof(*ret->marks));
	if (!ret->marks) {
		heap->no_memory = true;
		return false;
	}
	while (at < end) {
		uint64_t size = 0;
		bool whole = word_at(window, at + 8, &word);
		if (whole)
			size = word & ~(uint64_t)GM_CHUNK_FLAGS;
		if (whole && is_fence(at, size, end))
			size = end - at;
		if (!whole || size % 16 != 0 || size > end - at ||
		        (size < GM_CHUNK_LEAST && size != end - at)) {
			heap->caches.count = caches;
			free(ret->marks);
			return false;
		}
		for (; done < steps && ret->first + done * ret->step < at + size; done++)
			ret->marks[done] = at;
		if (has_cache_size(size) && heap->caches.count < MAX_CACHES &&
		        !gm_array_push(&heap->caches, at))
			heap->no_memory = true;
		ret->last = at;
		at += size;
	}
	while (done < steps)
		ret->marks[done++] = ret->last;
	heap->mark_count += steps;
	return true;
}

static void add_heap(
        struct gm_malloc *heap, struct window *window, uint64_t first, uint64_t end, uint64_t arena)
{
	struct gm_malloc_heap added = {.first = first, .end = end, .arena = arena};
	if (heap->heaps.count >= MAX_HEAPS)
		return;
	for (size_t i = 0; i < heap->heaps.count; i++)
		if (first < heap->heaps.items[i].end && end > heap->heaps.items[i].first)
			return;
	if (first >= end || first % 16 != 0 || !walk(heap, window, &added))
		return;
	if (!gm_array_push(&heap->heaps, added)) {
		free(added.marks);
		heap->no_memory = true;
	}
}

/* A heap of an arena other than the main one. struct heap_info has the arena, the previous heap and
 * the size. In the arena's first heap the arena itself follows, then the first chunk. */
static void add_arena_heap(struct gm_malloc *heap, struct window *window, uint64_t start)
{
	uint64_t info[3], first_info, base;
	if (!gm_image_try_read(heap->image, start, info, sizeof(info)) || info[0] == 0)
		return;
	base = info[0] & ~(uint64_t)(HEAP_ALIGNMENT - 1);
	uint64_t size_of = info[0] - base, arena = info[0];
	if (size_of < sizeof(info) || size_of > MOST_INFO || size_of % 8 != 0 ||
	        info[2] > HEAP_ALIGNMENT || info[2] % 4096 != 0 || info[2] < 4096 ||
	        !gm_image_try_u64(heap->image, base, &first_info) || first_info != arena)
		return;
	uint64_t first = base == start
	                         ? arena + gm_malloc_top_at(heap->image, arena) + ARENA_BEHIND_TOP
	                         : start + size_of;
	add_heap(heap, window, (first + 15) & ~UINT64_C(15), start + info[2], arena);
}

static bool is_private(const struct gm_mapping *mapping)
{
	return (mapping->flags & GM_MAPPING_WRITE) && gm_mapping_is_memory(mapping) &&
	       (mapping->path[0] == 0 || strcmp(mapping->path, "[heap]") == 0);
}

static void find_heaps(struct gm_malloc *heap, struct window *window)
{
	size_t count;
	uint64_t words[2];
	const struct gm_mapping *mappings = gm_image_mappings(heap->image, &count);
	for (size_t i = 0; i < count && !heap->no_memory; i++) {
		if (!is_private(&mappings[i]))
			continue;
		uint64_t start = mappings[i].start, end = mappings[i].end;
		/* one heap may be several mappings, if its pages have different permissions */
		for (size_t k = i + 1;
		        k < count && mappings[k].start == end && is_private(&mappings[k]); k++)
			end = mappings[k].end;
		uint64_t at = (start + HEAP_ALIGNMENT - 1) & ~(uint64_t)(HEAP_ALIGNMENT - 1);
		for (; at < mappings[i].end && at >= start && !heap->no_memory;
		        at += HEAP_ALIGNMENT)
			add_arena_heap(heap, window, at);
		/* a core does not show which mapping is the program break */
		if (gm_image_try_read(heap->image, start, words, sizeof(words)) && words[0] == 0 &&
		        (words[1] & GM_CHUNK_FLAGS) == GM_CHUNK_PREVIOUS_IN_USE)
			add_heap(heap, window, start, end, 0);
	}
}

static int by_address(const void *a, const void *b)
{
	const struct gm_malloc_heap *left = a, *right = b;
	return left->first < right->first ? -1 : left->first > right->first;
}

struct gm_malloc *gm_malloc_read(struct gm_image *image)
{
	struct gm_malloc *heap = calloc(1, sizeof(*heap));
	_cleanup_free_ unsigned char *bytes = malloc(BUFFER);
	if (!heap || !bytes) {
		free(heap);
		return NULL;
	}
	heap->image = image;
	struct window window = {image, bytes, 0, 0};
	find_heaps(heap, &window);
	if (heap->heaps.count)
		qsort(heap->heaps.items, heap->heaps.count, sizeof(*heap->heaps.items), by_address);
	gm_malloc_find_free(heap);
	if (!heap->no_memory)
		return heap;
	gm_malloc_destroy(heap);
	return NULL;
}

void gm_malloc_destroy(struct gm_malloc *heap)
{
	if (!heap)
		return;
	for (size_t i = 0; i < heap->heaps.count; i++)
		free(heap->heaps.items[i].marks);
	gm_array_deinit(&heap->heaps);
	gm_array_deinit(&heap->caches);
	gm_map_deinit(&heap->free);
	free(heap);
}
