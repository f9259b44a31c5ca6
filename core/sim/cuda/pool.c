/*
 * cudaMallocAsync and the devices' default memory pools (PyTorch's backend:cudaMallocAsync).
 *
 * A pool takes the device's memory in chunks, which count against the device, and hands out pieces of them.
 * All work is done when its call returns, so a freed piece is free at once, and a chunk that is empty goes
 * back where the pool holds more than its release threshold. Each device has its default pool only: making
 * others is refused (stubs.c).
 */
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define CHUNK (UINT64_C(32) << 20) /* what the driver's pools grow by */

struct CUmemPoolHandle_st {
	struct gm_sim_ranges chunks, pieces;
	uint64_t threshold, most_reserved, most_used;
	int reuse[3]; /* the three cudaMemPoolReuse… settings, kept only */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st pools[GM_SIM_DEVICES_MAX];

void gm_sim_pool_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

static int index_of(cudaMemPool_t pool)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;
	return at < sizeof(pools) && at % sizeof(pools[0]) == 0 ? (int)(at / sizeof(pools[0])) : -1;
}

bool gm_sim_pool_holds(struct gm_sim_device *device, const void *address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found =
	        gm_sim_ranges_find(&pools[device->index].pieces, (uintptr_t)address);
	uint64_t end = found ? found->start + found->value : 0;
	bool holds = (uintptr_t)address < end && size <= end - (uintptr_t)address;
	pthread_mutex_unlock(&lock);
	return holds;
}

static bool fit(struct CUmemPoolHandle_st *pool, uint64_t whole, uint64_t size, uint64_t *ret)
{
	for (size_t i = 0; i < pool->chunks.count; i++) {
		const struct gm_sim_range *chunk = &pool->chunks.items[i];
		if (gm_sim_ranges_take(&pool->pieces, chunk->start, chunk->start + chunk->size,
		            whole, GM_SIM_GRANULE, size, ret))
			return true;
	}
	return false;
}

/* Gives back chunks that are empty while the pool holds more than `keep`. */
static void trim(struct gm_sim_device *device, struct CUmemPoolHandle_st *pool, uint64_t keep)
{
	for (size_t i = pool->chunks.count; i-- > 0 && pool->chunks.used > keep;) {
		struct gm_sim_range chunk = pool->chunks.items[i], removed;
		uint64_t probe;
		/* Empty is what one piece of its size fits into. */
		if (!gm_sim_ranges_take(&pool->pieces, chunk.start, chunk.start + chunk.size,
		            chunk.size, GM_SIM_GRANULE, 0, &probe))
			continue;
		gm_sim_ranges_remove(&pool->pieces, probe, &removed);
		gm_sim_ranges_remove(&pool->chunks, chunk.start, &removed);
		gm_sim_memory_give(device, (void *)(uintptr_t)chunk.start);
	}
}

static int take(struct gm_sim_device *device, uint64_t size, void **ret)
{
	struct CUmemPoolHandle_st *pool = &pools[device->index];
	if (size > device->account->total)
		return cudaErrorMemoryAllocation;
	uint64_t whole = (size + GM_SIM_GRANULE - 1) & ~(uint64_t)(GM_SIM_GRANULE - 1), at;
	if (!fit(pool, whole, size, &at)) {
		uint64_t bytes = (whole + CHUNK - 1) / CHUNK * CHUNK;
		void *chunk;
		if (gm_sim_memory_take_physical(device, bytes, &chunk) != cudaSuccess) {
			/* What the pool keeps in vain goes back first, and no more is asked than needed. */
			trim(device, pool, 0);
			bytes = (whole + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1);
			if (gm_sim_memory_take_physical(device, bytes, &chunk) != cudaSuccess)
				return cudaErrorMemoryAllocation;
		}
		if (!gm_sim_ranges_add(&pool->chunks, (uintptr_t)chunk, bytes, 0)) {
			gm_sim_memory_give(device, chunk);
			return cudaErrorMemoryAllocation;
		}
		if (!fit(pool, whole, size, &at))
			return cudaErrorMemoryAllocation;
	}
	if (pool->chunks.used > pool->most_reserved)
		pool->most_reserved = pool->chunks.used;
	if (pool->pieces.used > pool->most_used)
		pool->most_used = pool->pieces.used;
	*ret = (void *)(uintptr_t)at;
	return cudaSuccess;
}

int gm_sim_pool_free(struct gm_sim_device *device, void *address)
{
	struct CUmemPoolHandle_st *pool = &pools[device->index];
	struct gm_sim_range range;
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&pool->pieces, (uintptr_t)address);
	bool there = found && found->start == (uintptr_t)address;
	if (there) {
		gm_sim_data_zero(device, address, found->size);
		gm_sim_ranges_remove(&pool->pieces, (uintptr_t)address, &range);
		trim(device, pool, pool->threshold);
	}
	pthread_mutex_unlock(&lock);
	return there ? cudaSuccess : cudaErrorInvalidValue;
}

GM_SIM_EXPORT cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (!pointer)
		return gm_sim_error(cudaErrorInvalidValue);
	*pointer = NULL;
	if (!size)
		return cudaSuccess;
	pthread_mutex_lock(&lock);
	int code = take(device, size, pointer);
	pthread_mutex_unlock(&lock);
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaMallocFromPoolAsync(
        void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	if (index_of(pool) != gm_sim_current_index())
		return gm_sim_error(cudaErrorInvalidValue);
	return cudaMallocAsync(pointer, size, stream);
}

GM_SIM_EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
	return cudaFree(pointer);
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *ret, int index)
{
	if (!gm_sim_device_facts(index))
		return gm_sim_error(cudaErrorInvalidDevice);
	if (!ret)
		return gm_sim_error(cudaErrorInvalidValue);
	*ret = &pools[index];
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *ret, int index)
{
	return cudaDeviceGetDefaultMemPool(ret, index);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	struct gm_sim_device *device = gm_sim_device(index_of(pool));
	if (!device)
		return gm_sim_error(cudaErrorInvalidValue);
	pthread_mutex_lock(&lock);
	trim(device, pool, keep);
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemPoolSetAccess(
        cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
	return index_of(pool) < 0 || (count && !access) ? gm_sim_error(cudaErrorInvalidValue)
	                                                : cudaSuccess;
}

static int attribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value, bool set)
{
	if (index_of(pool) < 0 || !value)
		return cudaErrorInvalidValue;
	uint64_t *wide = value, *most;
	int *flag = value, *kept = NULL;
	switch (which) {
	case cudaMemPoolReuseFollowEventDependencies:
	case cudaMemPoolReuseAllowOpportunistic:
	case cudaMemPoolReuseAllowInternalDependencies:
		/* On from the start, so kept the other way round. */
		kept = &pool->reuse[which - cudaMemPoolReuseFollowEventDependencies];
		if (set)
			*kept = !*flag;
		else
			*flag = !*kept;
		return cudaSuccess;
	case cudaMemPoolAttrReleaseThreshold:
		if (set)
			pool->threshold = *wide;
		else
			*wide = pool->threshold;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemCurrent:
	case cudaMemPoolAttrUsedMemCurrent:
		if (set)
			return cudaErrorInvalidValue;
		*wide = which == cudaMemPoolAttrReservedMemCurrent ? pool->chunks.used
		                                                   : pool->pieces.used;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemHigh:
	case cudaMemPoolAttrUsedMemHigh:
		most = which == cudaMemPoolAttrReservedMemHigh ? &pool->most_reserved
		                                               : &pool->most_used;
		/* It can be set to 0 only: to what is in use now. */
		if (set && *wide)
			return cudaErrorInvalidValue;
		if (set)
			*most = which == cudaMemPoolAttrReservedMemHigh ? pool->chunks.used
			                                                : pool->pieces.used;
		else
			*wide = *most;
		return cudaSuccess;
	default:
		return cudaErrorInvalidValue;
	}
}

GM_SIM_EXPORT cudaError_t cudaMemPoolGetAttribute(
        cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
	pthread_mutex_lock(&lock);
	int code = attribute(pool, which, value, false);
	pthread_mutex_unlock(&lock);
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolSetAttribute(
        cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value)
{
	pthread_mutex_lock(&lock);
	int code = attribute(pool, which, value, true);
	pthread_mutex_unlock(&lock);
	return gm_sim_error(code);
}
