#include "model/live.h"

#include <stdlib.h>
#include <sys/random.h>

void gm_live_deinit(struct gm_live *live)
{
	free(live->slots);
	*live = (struct gm_live){0};
}

static uint64_t draw_factor(void)
{
	uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	if (getrandom(&factor, sizeof(factor), GRND_NONBLOCK) < 0)
		factor ^= (uintptr_t)&factor
		          << 13; /* the address at which the program was loaded */
	return factor | 1;
}

bool gm_live_put(struct gm_live *live, uint64_t address, uint32_t device, uint32_t block)
{
	if (live->count * 2 >= live->slot_count) {
		struct gm_live grown = *live;
		grown.slot_count = live->slot_count ? live->slot_count * 2 : 1024;
		grown.shift = 64 - (unsigned)__builtin_ctzll(grown.slot_count);
		if (!live->slot_count)
			grown.factor = draw_factor();
		grown.slots = calloc(grown.slot_count, sizeof(*grown.slots));
		if (!grown.slots)
			return false;
		for (size_t i = 0; i < live->slot_count; i++) {
			const struct gm_live_slot *slot = &live->slots[i];
			if (slot->block)
				grown.slots[gm_live_find(&grown, slot->address, slot->device)] =
				        *slot;
		}
		free(live->slots);
		*live = grown;
	}
	struct gm_live_slot *slot = &live->slots[gm_live_find(live, address, device)];
	live->count += !slot->block;
	*slot = (struct gm_live_slot){address, device, block + 1};
	return true;
}

void gm_live_remove(struct gm_live *live, uint64_t address, uint32_t device)
{
	if (!live->slot_count)
		return;
	size_t at = gm_live_again(live, address, device);
	if (!live->slots[at].block)
		return;
	live->count--;
	/* Close the hole: move back entries that probing could not reach any more. */
	size_t mask = live->slot_count - 1;
	for (size_t next = (at + 1) & mask; live->slots[next].block; next = (next + 1) & mask) {
		size_t wanted =
		        gm_live_home(live, live->slots[next].address, live->slots[next].device);
		if (((next - wanted) & mask) >= ((next - at) & mask)) {
			live->slots[at] = live->slots[next];
			at = next;
		}
	}
	live->slots[at].block = 0;
}
