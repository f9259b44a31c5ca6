/* Pinned and registered host memory: which host ranges the device may reach. */
#include <stdlib.h>
#include <sys/mman.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

enum { ALLOCATED = 1, REGISTERED = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gm_sim_ranges pinned;

bool gm_sim_host_find(const void *address, struct gm_sim_range *ret)
{
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&pinned, (uintptr_t)address);
	if (found)
		*ret = *found;
	pthread_mutex_unlock(&lock);
	return found != NULL;
}

static bool note(void *address, size_t size, uint64_t kind)
{
	pthread_mutex_lock(&lock);
	bool added = gm_sim_ranges_add(&pinned, (uintptr_t)address, size, kind);
	pthread_mutex_unlock(&lock);
	return added;
}

/* Takes a range of one kind out; its size, or 0 where there is none that begins there. */
static size_t forget(void *address, uint64_t kind)
{
	struct gm_sim_range range = { 0 };
	pthread_mutex_lock(&lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&pinned, (uintptr_t)address);
	if (found && found->start == (uintptr_t)address && found->value == kind)
		gm_sim_ranges_remove(&pinned, (uintptr_t)address, &range);
	pthread_mutex_unlock(&lock);
	return range.size;
}

GM_SIM_EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags)
{
	if (!pointer)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	if (!size) {
		*pointer = NULL;
		return cudaSuccess;
	}
	/* Pages of its own, so that neither malloc nor a core's reader takes it for ordinary heap. */
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return gm_sim_error(cudaErrorMemoryAllocation);
	if (!note(memory, size, ALLOCATED)) {
		munmap(memory, size);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	*pointer = memory;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMallocHost(void **pointer, size_t size)
{
	return cudaHostAlloc(pointer, size, 0);
}

GM_SIM_EXPORT cudaError_t cudaFreeHost(void *pointer)
{
	if (!pointer)
		return cudaSuccess;
	size_t size = forget(pointer, ALLOCATED);
	if (!size)
		return gm_sim_error(cudaErrorInvalidValue);
	munmap(pointer, size);
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags)
{
	if (!pointer || !size)
		return gm_sim_error(cudaErrorInvalidValue);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	return gm_sim_error(
		note(pointer, size, REGISTERED) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

GM_SIM_EXPORT cudaError_t cudaHostUnregister(void *pointer)
{
	return gm_sim_error(
		forget(pointer, REGISTERED) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

GM_SIM_EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	struct gm_sim_range range;
	if (!device || !gm_sim_host_find(host, &range))
		return gm_sim_error(cudaErrorInvalidValue);
	*device = host;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaHostGetFlags(unsigned *flags, void *host)
{
	struct gm_sim_range range;
	if (!flags || !gm_sim_host_find(host, &range))
		return gm_sim_error(cudaErrorInvalidValue);
	*flags = cudaHostAllocMapped | cudaHostAllocPortable;
	return cudaSuccess;
}
