/* Which block is at an address now: an open-addressed table of the blocks that are alive while a log is read. */
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
	size_t slot_count, count;
};

void gm_live_deinit(struct gm_live *live);
/* Replaces what was there. False: no memory. */
bool gm_live_put(struct gm_live *live, uint64_t address, uint32_t device, uint32_t block);
/* UINT32_MAX: none. */
uint32_t gm_live_get(const struct gm_live *live, uint64_t address, uint32_t device);
void gm_live_remove(struct gm_live *live, uint64_t address, uint32_t device);

#endif
