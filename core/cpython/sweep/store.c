#include "cpython/sweep/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = GM_STORE_FRAME / PAGE, FIRST_PAGES = 4 };

bool gm_store_init(struct gm_store *store, struct gm_image *image, size_t frames)
{
	void *bytes = mmap(NULL, frames * GM_STORE_FRAME, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return false;
	store->image = image;
	store->here = NULL;
	store->here_count = 0;
	store->kept = gm_image_read_cache(image);
	store->borrowed = (struct gm_borrowed){0};
	store->bytes = bytes;
	store->frames = frames;
	store->next = 0;
	store->slot_of = calloc(frames, sizeof(*store->slot_of));
	for (size_t i = 0; i < GM_STORE_SLOTS; i++)
		store->slots[i] = (struct gm_store_slot){0, 0, GM_STORE_NO_FRAME};
	if (!store->slot_of)
		gm_store_deinit(store);
	return store->slot_of != NULL;
}

void gm_store_deinit(struct gm_store *store)
{
	if (store->bytes)
		munmap(store->bytes, store->frames * GM_STORE_FRAME);
	free(store->slot_of);
	store->bytes = NULL;
	store->slot_of = NULL;
}

/* A frame for a slot: its own, or otherwise the least recently used one. */
static void take_frame(struct gm_store *store, struct gm_store_slot *slot)
{
	if (slot->frame != GM_STORE_NO_FRAME)
		return;
	size_t frame = store->next;
	struct gm_store_slot *owner = &store->slots[store->slot_of[frame]];
	store->next = (frame + 1) % store->frames;
	if (owner->frame == frame)
		*owner = (struct gm_store_slot){0, 0, GM_STORE_NO_FRAME};
	slot->frame = (uint16_t)frame;
	store->slot_of[frame] = (uint16_t)(slot - store->slots);
}

/* Reads a page and some that follow: few at a new place, all if the previous page was wanted too.
 * */
static bool fill(
        struct gm_store *store, struct gm_store_slot *slot, uint8_t *bytes, uint64_t page_address)
{
	unsigned page = (unsigned)(page_address % GM_STORE_FRAME / PAGE);
	bool goes_on = page == 0 || slot->there >> (page - 1) & 1;
	unsigned wanted = goes_on ? PAGES - page : FIRST_PAGES;
	if (wanted > PAGES - page)
		wanted = PAGES - page;
	for (unsigned i = 1; i < wanted; i++)
		if (slot->there >> (page + i) & 1)
			wanted = i;
	size_t got = gm_image_read_some(
	        store->image, page_address, bytes + page * PAGE, (size_t)wanted * PAGE);
	for (size_t i = 0; i < got / PAGE; i++)
		slot->there |= (uint16_t)(1u << (page + i));
	return got >= PAGE;
}

static const uint8_t *page_at(struct gm_store *store, uint64_t page_address)
{
	if (store->kept && (gm_kept_chunk(store->kept, page_address) ||
	                           gm_kept_fill(store->kept, page_address))) {
		const uint8_t *kept = gm_kept_have(store->kept, page_address, PAGE);
		if (kept)
			return kept;
	}
	struct gm_borrowed borrowed;
	if (gm_image_borrow(store->image, page_address, &borrowed) &&
	        borrowed.end - page_address >= PAGE) {
		store->borrowed = borrowed;
		return borrowed.bytes + (page_address - borrowed.start);
	}
	uint64_t key = page_address / GM_STORE_FRAME + 1;
	struct gm_store_slot *slot = &store->slots[gm_store_slot_number(key)];
	size_t skip = page_address % GM_STORE_FRAME;
	if (slot->key != key) {
		take_frame(store, slot);
		slot->key = key;
		slot->there = 0;
	}
	uint8_t *bytes = store->bytes + (size_t)slot->frame * GM_STORE_FRAME;
	if (!(slot->there >> skip / PAGE & 1) && !fill(store, slot, bytes, page_address))
		return NULL;
	return bytes + skip;
}

const uint8_t *gm_store_miss(struct gm_store *store, uint64_t address, size_t size)
{
	uint64_t page = address & ~(uint64_t)(PAGE - 1);
	size_t skip = (size_t)(address - page);
	const uint8_t *bytes = page_at(store, page);
	if (!bytes || size > GM_STORE_CAPACITY || size > UINT64_MAX - address)
		return NULL;
	if (skip + size <= PAGE)
		return bytes + skip;
	const uint8_t *kept = gm_kept_have(store->kept, address, size);
	if (!kept)
		kept = gm_image_borrowed_bytes(store->image, address, size);
	if (kept)
		return kept;
	/* across a page's end: of two frames, the next one may replace this one */
	size_t first = PAGE - skip;
	memcpy(store->scratch, bytes + skip, first);
	bytes = page_at(store, page + PAGE);
	if (!bytes)
		return NULL;
	memcpy(store->scratch + first, bytes, size - first);
	return store->scratch;
}
