/*
 * Free chunks that the chunk after them reports as used: glibc keeps small ones in a cache of each
 * thread (malloc/malloc.c: struct tcache_perthread_struct) and in lists of each arena (struct
 * malloc_state: fastbinsY). Since 2.32 the links of these lists are XORed with their own address
 * (PROTECT_PTR).
 */
#include <string.h>

#include "holders/heap/malloc_free.h"
#include "holders/heap/malloc_chunks.h"

enum {
	FAST_LISTS = 10,
	FAST_LISTS_AT = 16, /* malloc_state.fastbinsY, until 2.42 */
	MAX_ARENAS = 4096,
	MAX_LINKS = 1 << 22,  /* most links that are followed, over all lists: damaged lists may be
	                         cyclic */
	DATA_WORDS = 1 << 15, /* bytes of libc that are searched for the main arena */
};

/* Does a chunk of that size (0: any size) begin 16 bytes before? */
static bool is_chunk(const struct gm_malloc *heap, uint64_t user, uint64_t size)
{
	uint64_t start, bytes;
	return user >= 16 && user % 16 == 0 &&
	       gm_malloc_at(heap, user, &start, &bytes) != GM_MALLOC_UNKNOWN && start == user &&
	       (size == 0 || bytes + 8 == size);
}

/* The link that is stored at `word`. False: it does not lead to a chunk of that size. */
static bool next_of(
        struct gm_malloc *heap, uint64_t word, uint64_t back, uint64_t size, uint64_t *ret)
{
	uint64_t stored;
	if (heap->looked_up++ >= MAX_LINKS || !gm_image_try_u64(heap->image, word, &stored))
		return false;
	const uint64_t links[] = {stored ^ (word >> 12), stored};
	for (size_t i = 0; i < 2; i++) {
		*ret = links[i];
		if (links[i] == 0 || is_chunk(heap, links[i] + back, size))
			return true;
	}
	return false;
}

static void add_free(struct gm_malloc *heap, uint64_t chunk)
{
	if (!gm_map_put(&heap->free, chunk, NULL))
		heap->no_memory = true;
}

/* struct tcache_perthread_struct: the length of each list, then the lists. From 2.42 on it has the
 * number of free places instead of the length, and after the lists of one size each there are lists
 * of chunks of several sizes. */
struct cache {
	uint64_t links[GM_MALLOC_LISTS];
	uint16_t counts[GM_MALLOC_LISTS]; /* the length of each list */
	size_t lists;
	bool count_left; /* `counts` are free places, as many as the list with the most of them has
	                  */
};

static bool read_cache(
        const struct gm_malloc *heap, uint64_t start, uint64_t chunk_size, struct cache *ret_cache)
{
	uint8_t small[GM_MALLOC_LISTS];
	struct cache *cache = ret_cache;
	*cache = (struct cache){.lists = chunk_size == GM_MALLOC_CACHE ? GM_MALLOC_LISTS : 64,
	        .count_left = chunk_size == GM_MALLOC_CACHE};
	size_t counts = cache->lists * sizeof(cache->counts[0]);
	if (chunk_size == GM_MALLOC_CACHE_OF_BYTES) {
		counts = cache->lists;
		if (!gm_image_try_read(heap->image, start, small, counts))
			return false;
		for (size_t i = 0; i < cache->lists; i++)
			cache->counts[i] = small[i];
	} else if (!gm_image_try_read(heap->image, start, cache->counts, counts)) {
		return false;
	}
	if (!gm_image_try_read(heap->image, start + counts, cache->links,
	            cache->lists * sizeof(cache->links[0])))
		return false;
	uint16_t most = 0;
	for (size_t i = 0; i < cache->lists && cache->count_left; i++)
		most = cache->counts[i] > most ? cache->counts[i] : most;
	for (size_t i = 0; i < cache->lists && cache->count_left; i++)
		cache->counts[i] = (uint16_t)(most - cache->counts[i]);
	return true;
}

/* The size of a list's chunks; 0: any size. */
static uint64_t size_of_list(size_t number)
{
	return number < 64 ? 32 + 16 * number : 0;
}

/* One list, whose links lead to memory that malloc() returned. False: this is not a list. */
static bool is_cache_list(struct gm_malloc *heap, uint64_t user, uint64_t count, uint64_t size)
{
	for (uint64_t i = 0; i < count; i++)
		if (!is_chunk(heap, user, size) || !next_of(heap, user, 0, size, &user))
			return false;
	return user == 0;
}

/* The chunk may be a thread's cache. It is one if each list has the length that it states. */
static void add_cache(struct gm_malloc *heap, uint64_t chunk)
{
	uint64_t start, bytes, next;
	struct cache cache;
	if (gm_malloc_at(heap, chunk + 16, &start, &bytes) != GM_MALLOC_USED ||
	        start != chunk + 16 || !read_cache(heap, start, bytes + 8, &cache))
		return;
	for (size_t i = 0; i < cache.lists; i++)
		if ((cache.counts[i] == 0) != (cache.links[i] == 0) ||
		        !is_cache_list(heap, cache.links[i], cache.counts[i], size_of_list(i)))
			return;
	for (size_t i = 0; i < cache.lists; i++) {
		uint64_t user = cache.links[i];
		for (uint64_t k = 0; k < cache.counts[i] && user && !heap->no_memory; k++) {
			add_free(heap, user - 16);
			if (!next_of(heap, user, 0, size_of_list(i), &next))
				break;
			user = next;
		}
	}
}

/* --- arenas ----------------------------------------------------------------------------------- */

/* In struct malloc_state, `top` is followed by the remainder of the last chunk that was split, the
 * rings of free chunks, and the next arena. This part is the same in both layouts. */
enum {
	RINGS_BEHIND_TOP = 16,
	NEXT_BEHIND_TOP = 2064,
};

/* The field `top` serves as a chunk whose links are those of the first ring. */
static bool is_top(struct gm_image *image, uint64_t field)
{
	uint64_t ring, back;
	return gm_image_try_u64(image, field + RINGS_BEHIND_TOP, &ring) &&
	       gm_image_try_u64(image, ring + 24, &back) && back == field;
}

uint64_t gm_malloc_top_at(struct gm_image *image, uint64_t arena)
{
	static const uint64_t places[] = {GM_ARENA_TOP_WITH_FAST_LISTS, GM_ARENA_TOP};
	for (size_t i = 0; i < 2; i++)
		if (is_top(image, arena + places[i]))
			return places[i];
	return 0;
}

/* An arena's lists of small free chunks, whose links lead to chunks. */
static void add_fast(struct gm_malloc *heap, uint64_t arena)
{
	uint64_t lists[FAST_LISTS];
	if (!gm_image_try_read(heap->image, arena + FAST_LISTS_AT, lists, sizeof(lists)))
		return;
	for (size_t i = 0; i < FAST_LISTS; i++) {
		uint64_t chunk = lists[i], size = 32 + 16 * i;
		if (chunk == 0 || !is_chunk(heap, chunk + 16, size))
			continue;
		while (chunk && !heap->no_memory) {
			add_free(heap, chunk);
			if (!next_of(heap, chunk + 16, 16, size, &chunk))
				break;
		}
	}
}

/* The arena whose `top` is there. All arenas form a ring, which shows where this arena begins. */
static uint64_t arena_of(struct gm_image *image, uint64_t field)
{
	uint64_t next, top = field;
	for (size_t i = 0; i < MAX_ARENAS; i++) {
		if (!gm_image_try_u64(image, top + NEXT_BEHIND_TOP, &next))
			return 0;
		if (next == field - GM_ARENA_TOP || next == field - GM_ARENA_TOP_WITH_FAST_LISTS)
			return next;
		uint64_t at = gm_malloc_top_at(image, next);
		if (at == 0)
			return 0;
		top = next + at;
	}
	return 0;
}

/* The main arena is a variable of libc without a symbol: a pointer to the last chunk of the heap,
 * followed by the head of a ring. */
static uint64_t main_arena_in(
        const struct gm_malloc *heap, const struct gm_mapping *mapping, uint64_t top)
{
	uint64_t words[512];
	for (uint64_t at = mapping->start;
	        at < mapping->end && at - mapping->start < (uint64_t)DATA_WORDS * 8;
	        at += sizeof(words)) {
		size_t got = gm_image_read_some(heap->image, at, words, sizeof(words)) / 8;
		for (size_t i = 0; i < got; i++)
			if (words[i] == top && is_top(heap->image, at + 8 * i))
				return arena_of(heap->image, at + 8 * i);
	}
	return 0;
}

static uint64_t main_arena(const struct gm_malloc *heap, uint64_t top)
{
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(heap->image, &count);
	for (size_t i = 0; i < count; i++) {
		const char *name = strrchr(mappings[i].path, '/');
		if (!name || !(mappings[i].flags & GM_MAPPING_WRITE) ||
		        (strncmp(name, "/libc.so", 8) != 0 && strncmp(name, "/libc-2.", 8) != 0))
			continue;
		uint64_t arena = main_arena_in(heap, &mappings[i], top);
		if (arena)
			return arena;
	}
	return 0;
}

void gm_malloc_find_free(struct gm_malloc *heap)
{
	struct gm_map done = {0};
	for (size_t i = 0; i < heap->caches.count && !heap->no_memory; i++)
		add_cache(heap, heap->caches.items[i]);
	for (size_t i = 0; i < heap->heaps.count && !heap->no_memory; i++) {
		struct gm_malloc_heap *one = &heap->heaps.items[i];
		bool is_new = false;
		if (one->arena == 0)
			one->arena = main_arena(heap, one->last);
		if (one->arena && !gm_map_put(&done, one->arena, &is_new))
			heap->no_memory = true;
		if (is_new &&
		        gm_malloc_top_at(heap->image, one->arena) == GM_ARENA_TOP_WITH_FAST_LISTS)
			add_fast(heap, one->arena);
	}
	gm_map_deinit(&done);
}
