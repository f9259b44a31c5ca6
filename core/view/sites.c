#include "view/sites.h"

#include "base/array.h"
#include "base/map.h"

struct blocks {
	GM_ARRAY(uint32_t) items;
	bool no_memory;
};

static void add(struct blocks *blocks, size_t block)
{
	blocks->no_memory |= !gm_array_push(&blocks->items, (uint32_t)block);
}

/* Those allocated at the device's peak. */
static void find_peak(const struct gm_model *model, size_t device, struct blocks *blocks)
{
	uint32_t peak = gm_model_device(model, device)->peak_event;
	for (size_t i = 0; peak != GM_NO_EVENT && i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		if (block->device == device && gm_block_live_after(block, peak))
			add(blocks, i);
	}
}

/* One for each Python stack. */
static void find_stacks(const struct gm_model *model, size_t device, struct blocks *blocks)
{
	struct gm_map seen = {0};
	for (size_t i = 0; i < gm_model_block_count(model); i++) {
		const struct gm_block *block = gm_model_block(model, i);
		uint32_t python, native;
		bool is_new = false;
		if (block->device != device || block->alloc == GM_NO_EVENT)
			continue;
		gm_model_stacks(model, block->alloc, &python, &native);
		if (python && !gm_map_put(&seen, python, &is_new))
			blocks->no_memory = true;
		if (is_new)
			add(blocks, i);
	}
	gm_map_deinit(&seen);
}

static struct gm_error *find(const struct gm_model *model, const struct blocks *blocks,
        uint64_t bytes, struct gm_driven **ret_driven)
{
	if (blocks->no_memory)
		return &gm_error_no_memory;
	return gm_driven_find(model, blocks->items.items, blocks->items.count, bytes, ret_driven);
}

struct gm_error *gm_view_driven(
        const struct gm_model *model, size_t device, struct gm_driven **ret_driven)
{
	struct blocks peak = {0}, stacks = {0};
	struct gm_driven *driven = NULL;
	find_peak(model, device, &peak);
	/* bytes 0 would mean all lines */
	uint64_t bytes = gm_model_device(model, device)->peak.allocated;
	struct gm_error *error = find(model, &peak, bytes ? bytes : UINT64_MAX, &driven);
	if (!error && !driven) {
		/* stacks of only libraries, at other moments: no line of the program has them */
		find_stacks(model, device, &stacks);
		error = find(model, &stacks, UINT64_MAX, &driven);
	}
	gm_array_deinit(&peak.items);
	gm_array_deinit(&stacks.items);
	if (!error)
		*ret_driven = driven;
	return error;
}
