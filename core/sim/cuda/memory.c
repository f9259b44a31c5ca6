/* cudaMalloc and cudaFree, and the attributes of device addresses. */
#include <string.h>

#include "sim/cuda/capacity.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

int gm_sim_memory_free(void *address)
{
	struct gm_sim_device *device = gm_sim_device_of(address);
	if (!device)
		return gm_sim_managed_free(address);
	if (device->foreign)
		return cudaErrorInvalidValue;
	/* As on a GPU, freeing waits for work in progress on the memory. */
	pthread_mutex_lock(&device->lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&device->ranges, (uintptr_t)address);
	uint64_t size = found ? found->size : 0;
	pthread_mutex_unlock(&device->lock);
	gm_sim_range_finish(address, size);
	gm_sim_graph_memory(address, size, false);
	return gm_sim_capacity_give(device, address, false) ? cudaSuccess
	                                                    : gm_sim_pool_free(device, address);
}

/* The first allocation with an address of its own; NULL if there is none. */
static void *first_allocation(struct gm_sim_device *device)
{
	void *found = NULL;
	pthread_mutex_lock(&device->lock);
	for (size_t i = 0; i < device->ranges.count && !found; i++)
		if (device->ranges.items[i].value)
			found = (void *)(uintptr_t)device->ranges.items[i].start;
	pthread_mutex_unlock(&device->lock);
	return found;
}

void gm_sim_memory_reset(struct gm_sim_device *device)
{
	void *address;
	while ((address = first_allocation(device)) && gm_sim_memory_free(address) == cudaSuccess)
		continue;
}

bool gm_sim_memory_holds(struct gm_sim_device *device, const void *address, uint64_t size)
{
	uint64_t at = (uintptr_t)address;
	if (device->foreign && at - (uintptr_t)device->base < device->span)
		return gm_sim_ipc_holds(address, size);
	if (at - (uintptr_t)device->base >= device->span) {
		/* Mapped parts, one after the other. */
		struct gm_sim_view view;
		while (gm_sim_vmm_find((const void *)(uintptr_t)at, &view) &&
		        view.device == device) {
			if (size <= view.size)
				return true;
			at += view.size;
			size -= view.size;
		}
		return false;
	}
	if (at < gm_sim_capacity_first(device))
		return size <= gm_sim_capacity_first(device) - at;
	uint64_t start, length;
	/* The limit is the requested size, not the whole pages that it takes. */
	return gm_sim_memory_range(device, address, &start, &length) && size <= start + length - at;
}

bool gm_sim_memory_range(
        struct gm_sim_device *device, const void *address, uint64_t *ret_start, uint64_t *ret_size)
{
	struct gm_sim_range range = {0};
	pthread_mutex_lock(&device->lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&device->ranges, (uintptr_t)address);
	if (found)
		range = *found;
	pthread_mutex_unlock(&device->lock);
	/* A chunk of a pool is not an allocation; allocations from the pool are. */
	if (found && !range.value && !gm_sim_pool_find(device, address, &range))
		return false;
	if (!found || (uintptr_t)address >= range.start + range.value)
		return false;
	*ret_start = range.start;
	*ret_size = range.value;
	return true;
}

GM_SIM_EXPORT cudaError_t cudaMalloc(void **pointer, size_t size)
{
	if (!pointer)
		return gm_sim_error(cudaErrorInvalidValue);
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (size == 0) {
		*pointer = NULL;
		return cudaSuccess;
	}
	if (gm_sim_capture_forbids())
		return gm_sim_error(cudaErrorStreamCaptureUnsupported);
	int code = gm_sim_memory_take(device, size, pointer);
	if (code == cudaSuccess)
		gm_sim_graph_memory(*pointer, size, true);
	return gm_sim_error(code);
}

GM_SIM_EXPORT cudaError_t cudaFree(void *pointer)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	if (!pointer) {
		/* The usual way to create the context. */
		return gm_sim_current() ? cudaSuccess : gm_sim_error(gm_sim_no_device());
	}
	if (gm_sim_capture_forbids())
		return gm_sim_error(cudaErrorStreamCaptureUnsupported);
	return gm_sim_error(gm_sim_memory_free(pointer));
}

GM_SIM_EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	return pointer ? gm_sim_error(gm_sim_memory_free(pointer)) : cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaMallocPitch(
        void **pointer, size_t *pitch, size_t width, size_t height)
{
	if (!pointer || !pitch || width > SIZE_MAX - 511 ||
	        (height && (width + 511) > SIZE_MAX / height))
		return gm_sim_error(cudaErrorInvalidValue);
	*pitch = (width + 511) & ~(size_t)511;
	return cudaMalloc(pointer, *pitch * height);
}

GM_SIM_EXPORT cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
	struct gm_sim_device *device = gm_sim_current();
	if (!device)
		return gm_sim_error(gm_sim_no_device());
	if (!free || !total)
		return gm_sim_error(cudaErrorInvalidValue);
	pthread_mutex_lock(&device->lock);
	*total = device->account->total;
	*free = device->account->total - device->account->context - device->account->used -
	        device->outside;
	pthread_mutex_unlock(&device->lock);
	uint64_t others = gm_sim_share_others(device);
	*free = *free > others ? *free - others : 0;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaPointerGetAttributes(
        struct cudaPointerAttributes *attributes, const void *pointer)
{
	if (!attributes)
		return gm_sim_error(cudaErrorInvalidValue);
	memset(attributes, 0, sizeof(*attributes));
	attributes->device = gm_sim_current_index();
	struct gm_sim_range host;
	struct gm_sim_device *device = gm_sim_device_of(pointer);
	if (device && gm_sim_memory_holds(device, pointer, 1)) {
		attributes->type = cudaMemoryTypeDevice;
		attributes->device = (int)device->index;
		attributes->devicePointer = (void *)(uintptr_t)pointer;
	} else if (gm_sim_managed_holds(pointer, 1)) {
		attributes->type = cudaMemoryTypeManaged;
		attributes->devicePointer = attributes->hostPointer = (void *)(uintptr_t)pointer;
	} else if (gm_sim_host_find(pointer, &host)) {
		attributes->type = cudaMemoryTypeHost;
		attributes->devicePointer = attributes->hostPointer = (void *)(uintptr_t)pointer;
	} else {
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = -2; /* the runtime's answer for memory that it does not know
		                            (CUDA 11 and later) */
		attributes->hostPointer = (void *)(uintptr_t)pointer;
	}
	return cudaSuccess;
}
