/*
 * cudaMallocAsync and memory pools: the default pool of each device (PyTorch's
 * backend:cudaMallocAsync) and the program's own.
 *
 * A pool gets the device's memory in chunks, which count against the device, and allocates from
 * them. All work is done when its call returns, so a freed allocation is free at once, and an empty
 * chunk is returned if the pool holds more than its release threshold. Pools that processes share
 * are refused (stubs.c).
 */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

#define CHUNK (UINT64_C(32) << 20) /* the size by which the driver's pools grow */

struct CUmemPoolHandle_st {
	struct CUmemPoolHandle_st *next; /* most pools of the program's own */
	int device;
	bool destroyed;  /* destroyed with its last allocation */
	uint64_t most;   /* bytes it may hold; 0: as many as the device has */
	uint32_t access; /* one bit for each other device that may access it */
	struct gm_sim_ranges chunks, allocations;
	uint64_t threshold, most_reserved, most_used;
	int reuse[3]; /* the three cudaMemPoolReuse… settings, only stored */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st pools[GM_SIM_DEVICES_MAX]; /* the default ones */
static struct CUmemPoolHandle_st *made;
static struct CUmemPoolHandle_st
        *chosen[GM_SIM_DEVICES_MAX]; /* set by cudaDeviceSetMemPool; NULL: the default */

void gm_sim_pool_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

/* The device of a pool, -1 if it is not one; call with the lock held. */
static int index_of(cudaMemPool_t pool)
{
	uintptr_t at = (uintptr_t)pool - (uintptr_t)pools;
	if (at < sizeof(pools))
		return at % sizeof(pools[0]) == 0 ? (int)(at / sizeof(pools[0])) : -1;
	for (const struct CUmemPoolHandle_st *one = made; one; one = one->next)
		if (one == pool)
			return one->destroyed ? -1 : one->device;
	return -1;
}

static bool has(const struct CUmemPoolHandle_st *pool, uint64_t address, struct gm_sim_range *ret)
{
	const struct gm_sim_range *found = gm_sim_ranges_find(&pool->allocations, address);
	if (found)
		*ret = *found;
	return found != NULL;
}

/* The pool of the device with an allocation at `address`; call with the lock held. */
static struct CUmemPoolHandle_st *holder(
        unsigned device, uint64_t address, struct gm_sim_range *ret)
{
	if (has(&pools[device], address, ret))
		return &pools[device];
	for (struct CUmemPoolHandle_st *pool = made; pool; pool = pool->next)
		if (pool->device == (int)device && has(pool, address, ret))
			return pool;
	return NULL;
}

bool gm_sim_pool_find(struct gm_sim_device *device, const void *address, struct gm_sim_range *ret)
{
	pthread_mutex_lock(&lock);
	bool found = holder(device->index, (uintptr_t)address, ret) != NULL;
	pthread_mutex_unlock(&lock);
	return found;
}

static bool fit(struct CUmemPoolHandle_st *pool, uint64_t whole, uint64_t size, uint64_t *ret)
{
	for (size_t i = 0; i < pool->chunks.count; i++) {
		const struct gm_sim_range *chunk = &pool->chunks.items[i];
		if (gm_sim_ranges_take(&pool->allocations, chunk->start, chunk->start + chunk->size,
		            whole, GM_SIM_GRANULE, size, ret))
			return true;
	}
	return false;
}

/* Returns empty chunks to the device while the pool holds more than `keep`. */
static void trim(struct gm_sim_device *device, struct CUmemPoolHandle_st *pool, uint64_t keep)
{
	for (size_t i = pool->chunks.count; i-- > 0 && pool->chunks.used > keep;) {
		struct gm_sim_range chunk = pool->chunks.items[i], removed;
		uint64_t probe;
		/* A chunk is empty if one allocation of its size fits. */
		if (!gm_sim_ranges_take(&pool->allocations, chunk.start, chunk.start + chunk.size,
		            chunk.size, GM_SIM_GRANULE, 0, &probe))
			continue;
		gm_sim_ranges_remove(&pool->allocations, probe, &removed);
		gm_sim_ranges_remove(&pool->chunks, chunk.start, &removed);
		gm_sim_memory_give(device, (void *)(uintptr_t)chunk.start);
	}
}

static int take(
        struct gm_sim_device *device, struct CUmemPoolHandle_st *pool, uint64_t size, void **ret)
{
	if (size > device->account->total)
		return cudaErrorMemoryAllocation;
	uint64_t whole = (size + GM_SIM_GRANULE - 1) & ~(uint64_t)(GM_SIM_GRANULE - 1), at;
	if (!fit(pool, whole, size, &at)) {
		uint64_t bytes = (whole + CHUNK - 1) / CHUNK * CHUNK;
		void *chunk;
		if (pool->most && (bytes > pool->most || pool->chunks.used > pool->most - bytes))
			return cudaErrorMemoryAllocation;
		if (gm_sim_memory_take_physical(device, bytes, &chunk) != cudaSuccess) {
			/* Unused memory of the pool is released first, and no more is requested
			 * than needed. */
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
	if (pool->allocations.used > pool->most_used)
		pool->most_used = pool->allocations.used;
	*ret = (void *)(uintptr_t)at;
	return cudaSuccess;
}

/* Frees a destroyed pool once it is empty; call with the lock held. */
static void end(struct CUmemPoolHandle_st *pool)
{
	if (!pool->destroyed || pool->allocations.used)
		return;
	struct CUmemPoolHandle_st **at = &made;
	while (*at && *at != pool)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = pool->next;
	trim(gm_sim_device(pool->device), pool, 0);
	gm_sim_ranges_deinit(&pool->chunks);
	gm_sim_ranges_deinit(&pool->allocations);
	free(pool);
}

int gm_sim_pool_free(struct gm_sim_device *device, void *address)
{
	struct gm_sim_range allocation = {0};
	pthread_mutex_lock(&lock);
	struct CUmemPoolHandle_st *pool = holder(device->index, (uintptr_t)address, &allocation);
	bool there = pool && allocation.start == (uintptr_t)address;
	if (there) {
		gm_sim_data_zero(device, address, allocation.size);
		gm_sim_ranges_remove(&pool->allocations, (uintptr_t)address, &allocation);
		trim(device, pool, pool->destroyed ? 0 : pool->threshold);
		end(pool);
	}
	pthread_mutex_unlock(&lock);
	return there ? cudaSuccess : cudaErrorInvalidValue;
}

/* From the pool, or (NULL) from the current device's. */
static int take_from(struct CUmemPoolHandle_st *pool, uint64_t size, void **pointer)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_no_device();
	if (!pointer)
		return cudaErrorInvalidValue;
	*pointer = NULL;
	pthread_mutex_lock(&lock);
	int code = cudaSuccess;
	if (!pool)
		pool = chosen[device->index] ? chosen[device->index] : &pools[device->index];
	device = gm_sim_device(index_of(pool));
	if (!device)
		code = cudaErrorInvalidValue;
	else if (size)
		code = take(device, pool, size, pointer);
	pthread_mutex_unlock(&lock);
	return code;
}

GM_SIM_EXPORT cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
	return gm_sim_error(take_from(NULL, size, pointer));
}

GM_SIM_EXPORT cudaError_t cudaMallocFromPoolAsync(
        void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	return gm_sim_error(pool ? take_from(pool, size, pointer) : cudaErrorInvalidValue);
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
	if (!gm_sim_device_facts(index))
		return gm_sim_error(cudaErrorInvalidDevice);
	if (!ret)
		return gm_sim_error(cudaErrorInvalidValue);
	pthread_mutex_lock(&lock);
	*ret = chosen[index] ? chosen[index] : &pools[index];
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaDeviceSetMemPool(int index, cudaMemPool_t pool)
{
	if (!gm_sim_device_facts(index))
		return gm_sim_error(cudaErrorInvalidDevice);
	pthread_mutex_lock(&lock);
	bool good = index >= 0 && index_of(pool) == index;
	if (good)
		chosen[index] = pool;
	pthread_mutex_unlock(&lock);
	return good ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolCreate(
        cudaMemPool_t *ret, const struct cudaMemPoolProps *props)
{
	if (!ret || !props || props->allocType != cudaMemAllocationTypePinned)
		return gm_sim_error(cudaErrorInvalidValue);
	/* In host memory, or for other processes: not simulated, which the error says. */
	if (props->location.type != cudaMemLocationTypeDevice || props->handleTypes)
		return gm_sim_error(cudaErrorNotSupported);
	if (!gm_sim_device(props->location.id))
		return gm_sim_error(cudaErrorInvalidDevice);
	struct CUmemPoolHandle_st *pool = calloc(1, sizeof(*pool));
	if (!pool)
		return gm_sim_error(cudaErrorMemoryAllocation);
	pool->device = props->location.id;
	pool->most = props->maxSize;
	gm_sim_ranges_init(&pool->chunks);
	gm_sim_ranges_init(&pool->allocations);
	pthread_mutex_lock(&lock);
	pool->next = made;
	made = pool;
	pthread_mutex_unlock(&lock);
	*ret = pool;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	pthread_mutex_lock(&lock);
	int device = index_of(pool);
	bool good = device >= 0 && pool != &pools[device];
	if (good) {
		/* Its allocations stay until they are freed; the device uses its default pool
		 * again. */
		if (chosen[device] == pool)
			chosen[device] = NULL;
		pool->destroyed = true;
		trim(gm_sim_device(device), pool, 0);
		end(pool);
	}
	pthread_mutex_unlock(&lock);
	return good ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	pthread_mutex_lock(&lock);
	struct gm_sim_device *device = gm_sim_device(index_of(pool));
	if (device)
		trim(device, pool, keep);
	pthread_mutex_unlock(&lock);
	return device ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolSetAccess(
        cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
	pthread_mutex_lock(&lock);
	int own = index_of(pool);
	bool good = own >= 0 && (access || !count);
	for (size_t i = 0; i < count && good; i++) {
		int other = access[i].location.id;
		good = access[i].location.type == cudaMemLocationTypeDevice &&
		       gm_sim_device_facts(other) &&
		       (other != own || access[i].flags == cudaMemAccessFlagsProtReadWrite);
	}
	for (size_t i = 0; i < count && good; i++)
		if (access[i].flags == cudaMemAccessFlagsProtReadWrite)
			pool->access |= 1u << access[i].location.id;
		else
			pool->access &= ~(1u << access[i].location.id);
	pthread_mutex_unlock(&lock);
	return good ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
}

GM_SIM_EXPORT cudaError_t cudaMemPoolGetAccess(
        enum cudaMemAccessFlags *ret, cudaMemPool_t pool, struct cudaMemLocation *location)
{
	pthread_mutex_lock(&lock);
	int own = index_of(pool);
	bool good = own >= 0 && ret && location && location->type == cudaMemLocationTypeDevice &&
	            gm_sim_device_facts(location->id);
	if (good)
		*ret = location->id == own || pool->access >> location->id & 1
		               ? cudaMemAccessFlagsProtReadWrite
		               : cudaMemAccessFlagsProtNone;
	pthread_mutex_unlock(&lock);
	return good ? cudaSuccess : gm_sim_error(cudaErrorInvalidValue);
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
		/* On from the start, so the inverse is stored. */
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
		                                                   : pool->allocations.used;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemHigh:
	case cudaMemPoolAttrUsedMemHigh:
		most = which == cudaMemPoolAttrReservedMemHigh ? &pool->most_reserved
		                                               : &pool->most_used;
		/* It can be set only to 0, which sets it to the current use. */
		if (set && *wide)
			return cudaErrorInvalidValue;
		if (set)
			*most = which == cudaMemPoolAttrReservedMemHigh ? pool->chunks.used
			                                                : pool->allocations.used;
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
