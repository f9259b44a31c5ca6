/* Pinned host memory: ordinary memory of the process that CUDA knows. */
#include <sys/mman.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* The value of a range: whether we allocated it, and its flags. */
enum { OURS = 1, FLAGS_SHIFT = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_ranges ranges;

void gm_sim_host_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

bool gm_sim_host_find(const void *address, struct gm_sim_range *ret)
{
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&ranges, (uintptr_t)address);
	bool there = found != NULL;
	if (there && ret)
		*ret = *found;
	pthread_mutex_unlock(&lock);
	return there;
}

GM_SIM_EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags)
{
	if (!pointer || flags & ~7u)
		return gm_sim_error(cudaErrorInvalidValue);
	if (gm_sim_forked() || !gm_sim_device_count())
		return gm_sim_error(gm_sim_no_device());
	*pointer = NULL;
	if (size == 0)
		return cudaSuccess;
	if (size > SIZE_MAX - 4095)
		return gm_sim_error(cudaErrorMemoryAllocation);
	size_t whole = (size + 4095) & ~(size_t)4095;
	void *address =
	        mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (address == MAP_FAILED)
		return gm_sim_error(cudaErrorMemoryAllocation);
	pthread_mutex_lock(&lock);
	bool added = gm_sim_ranges_add(
	        &ranges, (uintptr_t)address, whole, OURS | (uint64_t)flags << FLAGS_SHIFT);
	pthread_mutex_unlock(&lock);
	if (!added) {
		munmap(address, whole);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	*pointer = address;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMallocHost(void **pointer, size_t size)
{
	return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

GM_SIM_EXPORT cudaError_t cudaFreeHost(void *pointer)
{
	if (!pointer)
		return cudaSuccess;
	struct gm_sim_range range = {0};
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&ranges, (uintptr_t)pointer);
	bool ours = found && found->start == (uintptr_t)pointer && found->value & OURS &&
	            gm_sim_ranges_remove(&ranges, (uintptr_t)pointer, &range);
	pthread_mutex_unlock(&lock);
	if (!ours)
		return gm_sim_error(cudaErrorInvalidValue);
	munmap(pointer, range.size);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags)
{
	if (!pointer || !size || (uintptr_t)pointer + size < (uintptr_t)pointer)
		return gm_sim_error(cudaErrorInvalidValue);
	if (gm_sim_device_of(pointer))
		return gm_sim_error(cudaErrorInvalidValue);
	pthread_mutex_lock(&lock);
	bool added = gm_sim_ranges_add(
	        &ranges, (uintptr_t)pointer, size, (uint64_t)flags << FLAGS_SHIFT);
	pthread_mutex_unlock(&lock);
	return added ? cudaSuccess : gm_sim_error(cudaErrorHostMemoryAlreadyRegistered);
}

GM_SIM_EXPORT cudaError_t cudaHostUnregister(void *pointer)
{
	struct gm_sim_range range;
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&ranges, (uintptr_t)pointer);
	bool theirs = found && found->start == (uintptr_t)pointer && !(found->value & OURS) &&
	              gm_sim_ranges_remove(&ranges, (uintptr_t)pointer, &range);
	pthread_mutex_unlock(&lock);
	return theirs ? cudaSuccess : gm_sim_error(cudaErrorHostMemoryNotRegistered);
}

GM_SIM_EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	if (!device || !gm_sim_host_find(host, NULL))
		return gm_sim_error(cudaErrorInvalidValue);
	*device = host;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaHostGetFlags(unsigned *flags, void *host)
{
	struct gm_sim_range range;
	if (!flags || !gm_sim_host_find(host, &range))
		return gm_sim_error(cudaErrorInvalidValue);
	*flags = (unsigned)(range.value >> FLAGS_SHIFT);
	return cudaSuccess;
}
