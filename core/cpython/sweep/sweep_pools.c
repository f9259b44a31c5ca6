/* The blocks of CPython's allocator that a sweep has examined. */
#include <stdlib.h>

#include "cpython/sweep/sweep_inside.h"

static size_t pool_slot(const struct gm_sweep *sweep, uint64_t address)
{
	return (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (sweep->pool_capacity - 1);
}

bool gm_sweep_gather_pools(struct gm_sweep *sweep)
{
	size_t count = 0;
	for (size_t i = 0; i < GM_SWEEP_THREADS; i++)
		count += sweep->sweepers[i] ? sweep->sweepers[i]->pools.count : 0;
	for (sweep->pool_capacity = 64; sweep->pool_capacity < count * 2;)
		sweep->pool_capacity *= 2;
	sweep->pools = calloc(sweep->pool_capacity, sizeof(*sweep->pools));
	for (size_t i = 0; sweep->pools && i < GM_SWEEP_THREADS; i++) {
		const struct gm_sweeper *sweeper = sweep->sweepers[i];
		for (size_t k = 0; sweeper && k < sweeper->pools.count; k++) {
			size_t slot = pool_slot(sweep, sweeper->pools.items[k].address);
			while (sweep->pools[slot].address)
				slot = (slot + 1) & (sweep->pool_capacity - 1);
			sweep->pools[slot] = sweeper->pools.items[k];
		}
	}
	return sweep->pools != NULL;
}

bool gm_sweep_is_block(const struct gm_sweep *sweep, uint64_t address)
{
	uint64_t pool = address & ~(gm_python_pool_size(sweep->walk.python) - 1);
	size_t slot = pool_slot(sweep, pool);
	while (sweep->pools[slot].address && sweep->pools[slot].address != pool)
		slot = (slot + 1) & (sweep->pool_capacity - 1);
	return sweep->pools[slot].address && address - pool >= GM_POOL_FIRST &&
	       (address - pool - GM_POOL_FIRST) % sweep->pools[slot].block == 0;
}
