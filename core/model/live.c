#include "model/live.h"

#include <stdlib.h>

#include "base/hash.h"

void gm_live_deinit(struct gm_live *live)
{
	free(live->slots);
	*live = (struct gm_live){0};
}

static size_t home(const struct gm_live *live, uint64_t address, uint32_t device)
{
	return gm_hash_mix(address ^ (uint64_t)device << 56) & (live->slot_count - 1);
}

/* The slot of a key, or the free one where it would be. */
static size_t find(const struct gm_live *live, uint64_t address, uint32_t device)
{
	size_t at = home(live, address, device);
	while (live->slots[at].block &&
	        (live->slots[at].address != address || live->slots[at].device != device))
		at = (at + 1) & (live->slot_count - 1);
	return at;
}

bool gm_live_put(struct gm_live *live, uint64_t address, uint32_t device, uint32_t block)
{
	if (live->count * 2 >= live->slot_count) {
		struct gm_live grown = {
		        .slot_count = live->slot_count ? live->slot_count * 2 : 1024};
		grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
		if (!grown.slots)
			return false;
		for (size_t i = 0; i < live->slot_count; i++) {
			const struct gm_live_slot *slot = &live->slots[i];
			if (slot->block)
				grown.slots[find(&grown, slot->address, slot->device)] = *slot;
		}
		grown.count = live->count;
		free(live->slots);
		*live = grown;
	}
	struct gm_live_slot *slot = &live->slots[find(live, address, device)];
	live->count += !slot->block;
	*slot = (struct gm_live_slot){address, device, block + 1};
	return true;
}

uint32_t gm_live_get(const struct gm_live *live, uint64_t address, uint32_t device)
{
	if (!live->slot_count)
		return UINT32_MAX;
	return live->slots[find(live, address, device)].block - 1;
}

void gm_live_remove(struct gm_live *live, uint64_t address, uint32_t device)
{
	if (!live->slot_count)
		return;
	size_t at = find(live, address, device);
	if (!live->slots[at].block)
		return;
	live->count--;
	/* Close the hole: move back what probing would no longer reach. */
	size_t mask = live->slot_count - 1;
	for (size_t next = (at + 1) & mask; live->slots[next].block; next = (next + 1) & mask) {
		size_t wanted = home(live, live->slots[next].address, live->slots[next].device);
		if (((next - wanted) & mask) >= ((next - at) & mask)) {
			live->slots[at] = live->slots[next];
			at = next;
		}
	}
	live->slots[at].block = 0;
}
