/* cudaMalloc and cudaFree: which addresses of the device are in use, and how much is left. */
#include <fcntl.h>
#include <string.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* The device's own part (symbols of modules) stands before what is handed out. */
static uint64_t first_address(const struct gm_sim_device *device)
{
	return (uintptr_t)device->base +
	       ((device->account->context + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1));
}

/*
 * `more` bytes of the device for this process, or fewer (negative); the caller holds the device's
 * lock and has seen that they fit beside what the process itself holds. False where the run's other
 * processes leave too little.
 */
static bool share(struct gm_sim_device *device, int64_t more)
{
	const struct gm_sim_device_account *account = device->account;
	return gm_sim_share_set(device,
	        account->context + account->used + device->outside + (uint64_t)more, more > 0);
}

static bool try_take(struct gm_sim_device *device, uint64_t whole, uint64_t value, uint64_t *ret)
{
	struct gm_sim_device_account *account = device->account;
	pthread_mutex_lock(&device->lock);
	bool fits = whole <= account->total - account->context - account->used - device->outside &&
	            gm_sim_ranges_take(&device->ranges, first_address(device),
	                    (uintptr_t)device->base + device->span, whole, GM_SIM_PAGE, value, ret);
	if (fits && !share(device, (int64_t)whole)) {
		struct gm_sim_range range;
		gm_sim_ranges_remove(&device->ranges, *ret, &range);
		fits = false;
	}
	if (fits) {
		__atomic_store_n(&account->used, account->used + whole, __ATOMIC_RELAXED);
		if (account->used > account->peak_used)
			__atomic_store_n(&account->peak_used, account->used, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&device->lock);
	return fits;
}

/* `value` is what the program may use of it; 0 for memory that has no address of its own
 * (vmm.c). */
static int take(struct gm_sim_device *device, uint64_t size, uint64_t value, void **ret)
{
	struct gm_sim_device_account *account = device->account;
	uint64_t whole = (size + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1), address = 0;
	/* Managed memory gives way. */
	if (size <= account->total && (try_take(device, whole, value, &address) ||
	                                      (gm_sim_managed_evict(device) &&
	                                              try_take(device, whole, value, &address)))) {
		*ret = (void *)(uintptr_t)address;
		return cudaSuccess;
	}
	GM_SIM_COUNT(account->out_of_memory, 1);
	return cudaErrorMemoryAllocation;
}

bool gm_sim_memory_outside(struct gm_sim_device *device, int64_t bytes)
{
	const struct gm_sim_device_account *account = device->account;
	pthread_mutex_lock(&device->lock);
	bool fits = bytes <= 0 || (uint64_t)bytes <= account->total - account->context -
	                                                     account->used - device->outside;
	fits = fits && share(device, bytes);
	if (fits)
		gpumem_sim_account.outside[device->index] = device->outside += (uint64_t)bytes;
	pthread_mutex_unlock(&device->lock);
	return fits;
}

int gm_sim_memory_take(struct gm_sim_device *device, uint64_t size, void **ret)
{
	return take(device, size, size, ret);
}

int gm_sim_memory_take_physical(struct gm_sim_device *device, uint64_t size, void **ret)
{
	return take(device, size, 0, ret);
}

static bool give(struct gm_sim_device *device, void *address, bool physical)
{
	/* Emptied before it can be taken again; a range that is not there is not touched. */
	pthread_mutex_lock(&device->lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&device->ranges, (uintptr_t)address);
	struct gm_sim_range range = {0};
	bool there = found && found->start == (uintptr_t)address && (found->value == 0) == physical;
	if (there) {
		gm_sim_data_zero(device, address, found->size);
		gm_sim_ranges_remove(&device->ranges, (uintptr_t)address, &range);
		share(device, -(int64_t)range.size);
		__atomic_store_n(&device->account->used, device->account->used - range.size,
		        __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&device->lock);
	return there;
}

int gm_sim_memory_free(void *address)
{
	struct gm_sim_device *device = gm_sim_device_of(address);
	if (!device)
		return gm_sim_managed_free(address);
	if (device->foreign)
		return cudaErrorInvalidValue;
	/* As on a GPU, freeing waits for what is under way there. */
	pthread_mutex_lock(&device->lock);
	const struct gm_sim_range *found = gm_sim_ranges_find(&device->ranges, (uintptr_t)address);
	uint64_t size = found ? found->size : 0;
	pthread_mutex_unlock(&device->lock);
	gm_sim_settle_range(address, size);
	gm_sim_graph_memory(address, size, false);
	return give(device, address, false) ? cudaSuccess : gm_sim_pool_free(device, address);
}

void gm_sim_memory_give(struct gm_sim_device *device, void *address)
{
	give(device, address, true);
}

bool gm_sim_memory_holds(struct gm_sim_device *device, const void *address, uint64_t size)
{
	uint64_t at = (uintptr_t)address;
	if (device->foreign && at - (uintptr_t)device->base < device->span)
		return gm_sim_ipc_holds(address, size);
	if (at - (uintptr_t)device->base >= device->span) {
		/* Mapped pieces, one behind the other. */
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
	if (at < first_address(device))
		return size <= first_address(device) - at;
	uint64_t start, length;
	/* What was asked for is the limit, not the whole pages that it takes. */
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
	/* A chunk of a pool is no allocation, its pieces are. */
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
		/* The customary way to make the context. */
		return gm_sim_current() ? cudaSuccess : gm_sim_error(gm_sim_no_device());
	}
	return gm_sim_error(gm_sim_memory_free(pointer));
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
		attributes->device =
		        -2; /* as the runtime says of memory it does not know (CUDA 11 and later) */
		attributes->hostPointer = (void *)(uintptr_t)pointer;
	}
	return cudaSuccess;
}
