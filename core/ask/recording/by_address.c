#include "ask/recording/by_address.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/search.h"

static int compare(const void *a, const void *b)
{
	const struct gm_by_address_entry *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return (x->alloc > y->alloc) - (x->alloc < y->alloc);
}

/* GM_NO_EVENT, for a block from before the recording, sorts first. */
static uint32_t order(uint32_t alloc)
{
	return alloc == GM_NO_EVENT ? 0 : alloc + 1;
}

struct gm_error *gm_by_address_init(struct gm_by_address *by_address, const struct gm_model *model)
{
	size_t count = gm_model_block_count(model);
	*by_address = (struct gm_by_address){.model = model, .count = count};
	by_address->entries = malloc((count + 1) * sizeof(*by_address->entries));
	if (!by_address->entries)
		return &gm_error_no_memory;
	for (size_t i = 0; i < count; i++) {
		const struct gm_block *block = gm_model_block(model, i);
		by_address->entries[i] = (struct gm_by_address_entry){
		        block->address, order(block->alloc), (uint32_t)i};
	}
	qsort(by_address->entries, count, sizeof(*by_address->entries), compare);
	return NULL;
}

void gm_by_address_deinit(struct gm_by_address *by_address)
{
	free(by_address->entries);
	*by_address = (struct gm_by_address){0};
}

uint32_t gm_block_at_address(
        const struct gm_by_address *by_address, uint64_t address, uint32_t event)
{
	const struct gm_by_address_entry wanted = {.address = address, .alloc = order(event)},
	                                 *entries = by_address->entries;
	size_t behind = gm_partition_point(by_address->count, i, compare(&entries[i], &wanted) < 0);
	if (!behind || entries[behind - 1].address != address || !event)
		return GM_NO_BLOCK;
	uint32_t found = entries[behind - 1].block;
	return gm_block_live_after(gm_model_block(by_address->model, found), event - 1)
	               ? found
	               : GM_NO_BLOCK;
}
