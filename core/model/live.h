/* Which block is at an address now: an open-addressed table of the blocks that are alive while a
 * log is read. */
#ifndef GM_MODEL_LIVE_H
#define GM_MODEL_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_live_slot {
	uint64_t address;
	uint32_t device;
	uint32_t block; /* plus 1; 0: free */
};

struct gm_live {
	struct gm_live_slot *slots;
	size_t slot_count, count; /* a power of two */
	uint64_t factor;
	unsigned shift;
	size_t latest; /* the slot that was searched for last */
};

/* The top bits of a product with an odd number drawn by chance (Dietzfelbinger et al., "A Reliable
 * Randomized Algorithm for the Closest-Pair Problem", 1997): every event asks, so it must be
 * cheap, and no file can be made to collide. */
static inline size_t gm_live_home(const struct gm_live *live, uint64_t address, uint32_t device)
{
	uint64_t key = address ^ (uint64_t)device << 56;
	return (size_t)(key * live->factor >> live->shift);
}

/* The slot of a key, or the free one where it would be. */
static inline size_t gm_live_find(const struct gm_live *live, uint64_t address, uint32_t device)
{
	size_t at = gm_live_home(live, address, device);
	while (live->slots[at].block &&
	        (live->slots[at].address != address || live->slots[at].device != device))
		at = (at + 1) & (live->slot_count - 1);
	return at;
}

/* The slot that was got last first: a free is requested, completed and taken out of the table in a
 * row. */
static inline size_t gm_live_again(struct gm_live *live, uint64_t address, uint32_t device)
{
	const struct gm_live_slot *latest = &live->slots[live->latest];
	if (!latest->block || latest->address != address || latest->device != device)
		live->latest = gm_live_find(live, address, device);
	return live->latest;
}

/* UINT32_MAX: none. */
static inline uint32_t gm_live_get(struct gm_live *live, uint64_t address, uint32_t device)
{
	if (!live->slot_count)
		return UINT32_MAX;
	return live->slots[gm_live_again(live, address, device)].block - 1;
}

/* Where a key's slot is if it is alone there: to have it at hand. There must be slots. */
static inline const struct gm_live_slot *gm_live_place(
        const struct gm_live *live, uint64_t address, uint32_t device)
{
	return &live->slots[gm_live_home(live, address, device)];
}

void gm_live_deinit(struct gm_live *live);
/* Replaces what was there. False: no memory. */
bool gm_live_put(struct gm_live *live, uint64_t address, uint32_t device, uint32_t block);
void gm_live_remove(struct gm_live *live, uint64_t address, uint32_t device);

#endif
