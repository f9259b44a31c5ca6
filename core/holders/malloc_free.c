/*
 * Pieces of heap that are free although the piece behind them says that they are in use: glibc keeps small ones at hand, in a
 * cache of each thread (malloc/malloc.c: struct tcache_perthread_struct) and in lists of each arena (struct malloc_state:
 * fastbinsY). Since 2.32 the lists' links are masked by where they stand (PROTECT_PTR).
 */
#include <string.h>

#include "holders/malloc.h"

enum {
	LISTS = 64,
	FAST_LISTS = 10,
	FAST_LISTS_AT = 16, /* malloc_state.fastbinsY; then top */
	TOP_AT = 96,
	BINS_AT = 112,
	MAX_LINKS = 1 << 22,  /* followed of all lists: damaged ones may lead in a circle */
	DATA_WORDS = 1 << 15, /* of libc, in which the main arena is sought */
};

/* Does a chunk of that size (0: any) begin 16 bytes before? */
static bool is_chunk(const struct gm_malloc *heap, uint64_t user, uint64_t size)
{
	uint64_t start, bytes;
	return user >= 16 && user % 16 == 0 &&
	       gm_malloc_at(heap, user, &start, &bytes) != GM_MALLOC_UNKNOWN && start == user &&
	       (size == 0 || bytes + 8 == size);
}

/* The link that is stored at `word`. False: it leads to no piece of that size. */
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

/* One list of a thread's cache, whose links lead to what malloc() returned. False: it is none. */
static bool is_cache_list(struct gm_malloc *heap, uint64_t user, uint64_t count, uint64_t size)
{
	for (uint64_t i = 0; i < count; i++)
		if (!is_chunk(heap, user, size) || !next_of(heap, user, 0, size, &user))
			return false;
	return user == 0;
}

/* The piece may be a thread's cache: all its lists are as long as it says, or it is none. */
static void add_cache(struct gm_malloc *heap, uint64_t chunk)
{
	uint64_t word, start, bytes, links[LISTS];
	uint16_t counts[LISTS];
	uint8_t small[LISTS];
	if (gm_malloc_at(heap, chunk + 16, &start, &bytes) != GM_MALLOC_USED || start != chunk + 16)
		return;
	if (bytes + 8 == 0x290) {
		if (!gm_image_try_read(heap->image, start, counts, sizeof(counts)))
			return;
		start += sizeof(counts);
	} else {
		if (!gm_image_try_read(heap->image, start, small, sizeof(small)))
			return;
		for (size_t i = 0; i < LISTS; i++)
			counts[i] = small[i];
		start += sizeof(small);
	}
	if (!gm_image_try_read(heap->image, start, links, sizeof(links)))
		return;
	for (size_t i = 0; i < LISTS; i++)
		if ((counts[i] == 0) != (links[i] == 0) ||
		        !is_cache_list(heap, links[i], counts[i], 32 + 16 * i))
			return;
	for (size_t i = 0; i < LISTS; i++) {
		uint64_t user = links[i];
		for (uint64_t k = 0; k < counts[i] && user && !heap->no_memory; k++) {
			add_free(heap, user - 16);
			if (!next_of(heap, user, 0, 32 + 16 * i, &word))
				break;
			user = word;
		}
	}
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

/* The main arena is a variable of libc without a symbol: what points at the heap's last chunk, with the head of a ring behind it. */
static uint64_t main_arena_in(
        const struct gm_malloc *heap, const struct gm_mapping *mapping, uint64_t top)
{
	uint64_t words[512];
	for (uint64_t at = mapping->start;
	        at < mapping->end && at - mapping->start < (uint64_t)DATA_WORDS * 8;
	        at += sizeof(words)) {
		size_t got = gm_image_read_some(heap->image, at, words, sizeof(words)) / 8;
		for (size_t i = 0; i < got; i++) {
			uint64_t field = at + 8 * i, ring, back;
			if (words[i] != top || field - mapping->start < TOP_AT)
				continue;
			/* bins[0]: `field` stands for a chunk whose links are bins[0] and bins[1] */
			if (gm_image_try_u64(heap->image, field - TOP_AT + BINS_AT, &ring) &&
			        gm_image_try_u64(heap->image, ring + 24, &back) && back == field)
				return field - TOP_AT;
		}
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
		if (is_new)
			add_fast(heap, one->arena);
	}
	gm_map_deinit(&done);
}
