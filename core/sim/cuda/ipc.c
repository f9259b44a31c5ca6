/*
 * IPC handles: memory and events of one process that another one uses.
 *
 * A memory handle contains the process, its device and the offset in it (foreign.c maps it). So
 * both see the same bytes, and the memory counts once, for the process that allocated it. Events:
 * all work that an event could wait for is done at once, except collectives, which are waited for
 * when the handle is created.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

struct memory_handle {
	struct gm_sim_origin origin;
	uint64_t offset, size;
};

_Static_assert(sizeof(struct memory_handle) <= sizeof(cudaIpcMemHandle_t), "a handle's size");

struct opened {
	struct opened *next;
	struct gm_sim_device *device;
	uint64_t start, size;
	unsigned count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all;

void gm_sim_ipc_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

bool gm_sim_ipc_holds(const void *address, uint64_t size)
{
	uint64_t at = (uintptr_t)address;
	bool holds = false;
	pthread_mutex_lock(&lock);
	for (struct opened *opened = all; opened && !holds; opened = opened->next)
		holds = at >= opened->start && at - opened->start < opened->size &&
		        size <= opened->size - (at - opened->start);
	pthread_mutex_unlock(&lock);
	return holds;
}

GM_SIM_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *ret, void *address)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	struct gm_sim_device *device = gm_sim_device_of(address);
	uint64_t at = (uintptr_t)address;
	if (!ret || !device || device->foreign || at - (uintptr_t)device->base >= device->span)
		return gm_sim_error(cudaErrorInvalidValue);
	struct memory_handle handle = {0};
	pthread_mutex_lock(&device->lock);
	/* A handle refers to a whole allocation; allocations of a pool or of virtual memory have
	 * none. */
	const struct gm_sim_range *found = gm_sim_ranges_find(&device->ranges, at);
	bool whole = found && found->value;
	if (whole) {
		handle.offset = found->start - (uintptr_t)device->base;
		handle.size = found->value;
	}
	pthread_mutex_unlock(&device->lock);
	if (!whole)
		return gm_sim_error(cudaErrorInvalidValue);
	gm_sim_origin_of(device, &handle.origin);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &handle, sizeof(handle));
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaIpcOpenMemHandle(void **ret, cudaIpcMemHandle_t given, unsigned flags)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	struct memory_handle handle;
	memcpy(&handle, &given, sizeof(handle));
	if (!ret || !handle.origin.process || !handle.size || handle.offset > handle.origin.span ||
	        handle.size > handle.origin.span - handle.offset)
		return gm_sim_error(cudaErrorInvalidValue);
	/* In the process that created it, a handle cannot be opened, as on a GPU. */
	if (handle.origin.process == (uint32_t)getpid())
		return gm_sim_error(cudaErrorDeviceUninitialized);
	if (!gm_sim_current())
		return gm_sim_error(gm_sim_no_device());
	struct gm_sim_device *device = gm_sim_foreign_take(&handle.origin);
	if (!device)
		return gm_sim_error(cudaErrorMapBufferObjectFailed);
	uint64_t start = (uintptr_t)device->base + handle.offset;
	pthread_mutex_lock(&lock);
	struct opened *opened = all;
	while (opened && opened->start != start)
		opened = opened->next;
	if (!opened && (opened = calloc(1, sizeof(*opened)))) {
		*opened = (struct opened){
		        .next = all, .device = device, .start = start, .size = handle.size};
		all = opened;
		device->index = (unsigned)gm_sim_current_index();
	}
	if (opened)
		opened->count++;
	pthread_mutex_unlock(&lock);
	if (!opened) {
		gm_sim_foreign_give(device);
		return gm_sim_error(cudaErrorMemoryAllocation);
	}
	*ret = (void *)(uintptr_t)start;
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaIpcCloseMemHandle(void *address)
{
	if (gm_sim_forked())
		return gm_sim_error(cudaErrorInitializationError);
	pthread_mutex_lock(&lock);
	struct opened **at = &all;
	while (*at && (*at)->start != (uintptr_t)address)
		at = &(*at)->next;
	struct opened *opened = *at, *last = NULL;
	struct gm_sim_device *device = opened ? opened->device : NULL;
	if (opened && --opened->count == 0) {
		*at = opened->next;
		last = opened;
	}
	pthread_mutex_unlock(&lock);
	if (!device)
		return gm_sim_error(cudaErrorInvalidValue);
	free(last);
	gm_sim_foreign_give(device);
	return cudaSuccess;
}

static const char event_mark[] = "gpumem-sim-event";

GM_SIM_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *ret, cudaEvent_t event)
{
	if (!ret)
		return gm_sim_error(cudaErrorInvalidValue);
	int code = gm_sim_event_interprocess(event);
	if (code != cudaSuccess)
		return gm_sim_error(code);
	cudaEventSynchronize(event);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, event_mark, sizeof(event_mark));
	return cudaSuccess;
}

GM_SIM_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *ret, cudaIpcEventHandle_t handle)
{
	if (!ret || memcmp(&handle, event_mark, sizeof(event_mark)) != 0)
		return gm_sim_error(cudaErrorInvalidValue);
	cudaError_t code =
	        cudaEventCreateWithFlags(ret, cudaEventDisableTiming | cudaEventInterprocess);
	if (code == cudaSuccess)
		code = cudaEventRecord(*ret, NULL);
	return code;
}
