#include "ask/recording/stretch.h"

void gm_stretch_add(struct gm_stretch *stretch, const struct gm_state_walk *walk, uint64_t before,
        const struct gm_block *block, uint32_t kept_until)
{
	if (!stretch->events) {
		stretch->first = walk->number;
		stretch->start = before;
		stretch->peak = before;
		stretch->peak_event = walk->number;
	}
	stretch->events++;
	stretch->last = walk->number;
	stretch->end = walk->usage.allocated;
	if (walk->usage.allocated > stretch->peak) {
		stretch->peak = walk->usage.allocated;
		stretch->peak_event = walk->number;
	}
	if (walk->event.action != GM_ALLOC || !block)
		return;
	stretch->blocks++;
	stretch->bytes += block->size;
	if (gm_block_live_after(block, kept_until)) {
		stretch->kept_blocks++;
		stretch->kept += block->size;
	}
}
