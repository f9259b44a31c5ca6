#include "image/page_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool gm_page_cache_init(struct gm_page_cache *cache)
{
	size_t size = (size_t)GM_PAGE_CACHE_SLOTS * GM_PAGE_SIZE;
	void *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED)
		return false;
	cache->slots = calloc(GM_PAGE_CACHE_SLOTS, sizeof(*cache->slots));
	if (!cache->slots) {
		munmap(data, size);
		return false;
	}
	cache->data = data;
	atomic_init(&cache->generation, 1); /* slots begin at 0: empty */
	for (size_t i = 0; i < GM_PAGE_CACHE_LOCKS; i++)
		pthread_mutex_init(&cache->locks[i], NULL);
	return true;
}

void gm_page_cache_deinit(struct gm_page_cache *cache)
{
	if (!cache->data)
		return;
	munmap(cache->data, (size_t)GM_PAGE_CACHE_SLOTS * GM_PAGE_SIZE);
	free(cache->slots);
	for (size_t i = 0; i < GM_PAGE_CACHE_LOCKS; i++)
		pthread_mutex_destroy(&cache->locks[i]);
	cache->data = NULL;
}

void gm_page_cache_invalidate(struct gm_page_cache *cache)
{
	atomic_fetch_add_explicit(&cache->generation, 1, memory_order_release);
}

bool gm_page_cache_read(struct gm_page_cache *cache, uint64_t address, void *buffer, size_t size,
        gm_page_fill fill, void *context)
{
	uint64_t page = address & ~(uint64_t)(GM_PAGE_SIZE - 1);
	uint64_t number = page / GM_PAGE_SIZE;
	size_t index = (number ^ number >> 11 ^ number >> 22) % GM_PAGE_CACHE_SLOTS;
	struct gm_page_slot *slot = &cache->slots[index];
	uint8_t *data = cache->data + index * GM_PAGE_SIZE;
	pthread_mutex_t *lock = &cache->locks[index % GM_PAGE_CACHE_LOCKS];

	pthread_mutex_lock(lock);
	uint64_t generation = atomic_load_explicit(&cache->generation, memory_order_acquire);
	bool there = slot->generation == generation && slot->page == page;
	if (!there) {
		slot->generation = 0; /* a failed read may leave half a page */
		there = fill(context, page, data);
		if (there) {
			slot->page = page;
			slot->generation = generation;
		}
	}
	if (there)
		memcpy(buffer, data + (address - page), size);
	pthread_mutex_unlock(lock);
	return there;
}
