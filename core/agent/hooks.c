/*
 * Hooks of libc10. Each one is called instead of one of its functions: it examines the call, and
 * then jumps to the function itself with all registers unchanged.
 */
#include "agent/hooks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "agent/hook_entry.h"
#include "agent/patch.h"
#include "agent/spool.h"
#include "agent/block.h"
#include "agent/caller.h"
#include "agent/event.h"
#include "agent/lookup.h"
#include "agent/oom.h"
#include "agent/put.h"
#include "agent/runtime.h"
#include "agent/amp.h"
#include "agent/collectives.h"
#include "agent/resized.h"
#include "agent/simulated.h"
#include "agent/state.h"
#include "agent/tensors.h"
#include "base/varint.h"
#include "torch/names.h"

SEE void *gm_agent_see_report(const struct call *call);
SEE void *gm_agent_see_oom(const struct call *call);
SEE void *gm_agent_see_new(const struct call *call);
SEE void *gm_agent_see_delete(const struct call *call);

HOOK(GM_TORCH_REPORT, "gm_agent_see_report");
HOOK(GM_TORCH_REPORT_OOM, "gm_agent_see_oom");
HOOK(GM_TORCH_CPU_NEW, "gm_agent_see_new");
HOOK(GM_TORCH_CPU_DELETE, "gm_agent_see_delete");

GM_AGENT_EXPORT void hook_report(void) __asm__(GM_TORCH_REPORT);
GM_AGENT_EXPORT void hook_oom(void) __asm__(GM_TORCH_REPORT_OOM);
GM_AGENT_EXPORT void hook_new(void) __asm__(GM_TORCH_CPU_NEW);
GM_AGENT_EXPORT void hook_delete(void) __asm__(GM_TORCH_CPU_DELETE);

/* The function that each hook continues with. */
static void *_Atomic before_report, *_Atomic before_oom, *_Atomic before_new,
        *_Atomic before_delete;

const struct gm_agent_hook gm_agent_c10_hooks[] = {
        {GM_TORCH_REPORT, (void *)hook_report, &before_report},
        {GM_TORCH_REPORT_OOM, (void *)hook_oom, &before_oom},
        {GM_TORCH_CPU_NEW, (void *)hook_new, &before_new},
        {GM_TORCH_CPU_DELETE, (void *)hook_delete, &before_delete},
        {NULL, NULL, NULL},
};

enum { DEVICE_CPU = 0, DEVICE_CUDA = 1 }; /* c10::DeviceType */

/* With preloading, another preloaded library (the simulated device) may define the function; that
 * one comes before PyTorch's library. */
static void find_next(const struct gm_agent_hook *hooks)
{
	for (const struct gm_agent_hook *hook = hooks; hook->symbol; hook++)
		atomic_store(hook->before, dlsym(RTLD_NEXT, hook->symbol));
}

void gm_agent_hooks_preloaded(void)
{
	find_next(gm_agent_c10_hooks);
	find_next(gm_agent_runtime_hooks);
	find_next(gm_agent_tensor_hooks);
	find_next(gm_agent_resize_hooks);
	find_next(gm_agent_amp_hooks);
	find_next(gm_agent_collective_hooks);
}

/* c10::Device, by value: type and index, one byte each (c10/core/Device.h) */
static int8_t device_type(uint64_t device)
{
	return (int8_t)device;
}

static int16_t device_index(uint64_t device)
{
	int8_t index = (int8_t)(device >> 8);
	return index < 0 ? 0 : index;
}

static void put_total(int16_t device, uint64_t total)
{
	char name[32];
	uint8_t bytes[64];
	int length = snprintf(name, sizeof(name), "device.%d.total", device);
	uint8_t *at = gm_put_varint(bytes, (uint64_t)length);
	memcpy(at, name, (size_t)length);
	at = gm_put_varint(at + length, total);
	gm_agent_put(GM_AGENT_COUNTER, 0, bytes, (size_t)(at - bytes));
}

/* The devices whose size the recording has: a bit each. */
static _Atomic uint32_t sized;

void gm_agent_hooks_begin(void)
{
	atomic_store(&sized, 0);
}

/* The size of a device's memory is reported once in a recording, if this needs no CUDA call: a
 * simulated device has it in the process's memory. For other devices it is reported when they run
 * out of memory. */
static void put_simulated_total(int16_t device)
{
	if (device < 0 || device >= GM_SIM_DEVICES_MAX ||
	        (atomic_load_explicit(&sized, memory_order_relaxed) >> device & 1))
		return;
	atomic_fetch_or(&sized, 1U << device);
	const struct gm_sim_account *sim = gm_agent_simulation();
	if (sim && (uint32_t)device < sim->devices)
		put_total(device, sim->device[device].total);
}

/* void reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t total_allocated, size_t
 * total_reserved, Device) (c10/core/Allocator.h); the allocator's lock is held. */
static void report(const struct call *call)
{
	int64_t size = (int64_t)call->argument[1];
	int16_t device = device_index(call->argument[4]);
	struct gm_agent_event event = {
	        .action = size > 0 ? GM_AGENT_ALLOC : GM_AGENT_FREE_REQUESTED,
	        .device_type = DEVICE_CUDA,
	        .device = device,
	        .address = call->argument[0],
	        .size = size > 0 ? (uint64_t)size : 0 - (uint64_t)size,
	        .allocated = call->argument[2],
	        .reserved = call->argument[3],
	        .at = &call->at,
	};
	put_simulated_total(device);
	if (gm_agent_blocks_wait(device))
		gm_agent_completions(device, &call->at);
	struct gm_agent_block block;
	if (size < 0) {
		event.deferred = gm_agent_block_free(device, event.address, event.size);
	} else if (gm_agent_block_new(device, event.address, event.size, &call->at, &block)) {
		event.requested = block.requested;
		event.stream = block.stream;
		event.tensor = gm_agent_tensor_take(block.requested, call->at.rsp);
	}
	if (size > 0)
		gm_agent_amp_cast(call->at.rsp);
	gm_agent_event(&event);
}

void *gm_agent_see_report(const struct call *call)
{
	if (device_type(call->argument[4]) == DEVICE_CUDA && call->argument[1] != 0 &&
	        gm_agent_may_record(GM_AGENT_CUDA) && gm_agent_enter()) {
		report(call);
		gm_agent_leave();
	}
	return gm_agent_go_on(&before_report, "libc10.so", GM_TORCH_REPORT);
}

/*
 * The free bytes according to the device, plus 1; 0 if it does not say. PyTorch's allocator has
 * just asked the same, for its message, with that device current. *ret_total is the device's total.
 */
static uint64_t device_free(int16_t device, uint64_t *ret_total)
{
	size_t free_bytes = 0, total = 0;
	int (*function)(size_t *, size_t *);
	void *found = gm_agent_find("cudaMemGetInfo");
	memcpy(&function, &found, sizeof(found));
	if (!function || gm_agent_current_device() != device ||
	        function(&free_bytes, &total) != 0 /* cudaSuccess */)
		return 0;
	*ret_total = total;
	return (uint64_t)free_bytes + 1;
}

/* void reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated, size_t
 * total_reserved, Device) */
void *gm_agent_see_oom(const struct call *call)
{
	int8_t type = device_type(call->argument[3]);
	unsigned feature = type == DEVICE_CUDA  ? GM_AGENT_CUDA
	                   : type == DEVICE_CPU ? GM_AGENT_CPU
	                                        : 0;
	if ((type == DEVICE_CUDA || gm_agent_may_record(feature)) && gm_agent_enter()) {
		uint64_t total = 0;
		int16_t device = device_index(call->argument[3]);
		const struct gm_agent_event event = {
		        .action = GM_AGENT_OOM,
		        .device_type = (uint8_t)type,
		        .device = device,
		        .address = type == DEVICE_CUDA ? device_free(device, &total) : 0,
		        .size = call->argument[0],
		        .requested = call->argument[0],
		        .allocated = type == DEVICE_CUDA ? call->argument[1] : UINT64_MAX,
		        .reserved = type == DEVICE_CUDA ? call->argument[2] : UINT64_MAX,
		        .at = &call->at,
		};
		if (total && gm_agent_records(feature))
			put_total(device, total);
		if (gm_agent_records(feature)) {
			gm_agent_event(&event);
			struct gm_agent_file_header *header = gm_agent_spool_header();
			if (header && type == DEVICE_CUDA)
				atomic_fetch_add(&header->ooms, 1);
		}
		if (type == DEVICE_CUDA)
			gm_agent_out_of_memory(&event);
		gm_agent_leave();
	}
	return gm_agent_go_on(&before_oom, "libc10.so", GM_TORCH_REPORT_OOM);
}

/* CPU tensors: void ProfiledCPUMemoryReporter::New(void *ptr, size_t nbytes), called after the
 * allocation, and Delete(void *ptr), called before the memory is released
 * (c10/core/CPUAllocator.h); the first argument is `this`. */
static void see_cpu(const struct call *call, enum gm_agent_action action, uint64_t size)
{
	if (!gm_agent_may_record(GM_AGENT_CPU) || !gm_agent_enter())
		return;
	const struct gm_agent_event event = {
	        .action = (uint8_t)action,
	        .device_type = DEVICE_CPU,
	        .address = call->argument[1],
	        .size = size,
	        .requested = size,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .at = &call->at,
	        .tensor = action == GM_AGENT_ALLOC ? gm_agent_tensor_take(size, call->at.rsp) : 0,
	};
	if (action == GM_AGENT_ALLOC)
		gm_agent_amp_cast(call->at.rsp);
	gm_agent_event(&event);
	gm_agent_leave();
}

void *gm_agent_see_new(const struct call *call)
{
	if (call->argument[2] > 0)
		see_cpu(call, GM_AGENT_ALLOC, call->argument[2]);
	return gm_agent_go_on(&before_new, "libc10.so", GM_TORCH_CPU_NEW);
}

void *gm_agent_see_delete(const struct call *call)
{
	if (call->argument[1])
		see_cpu(call, GM_AGENT_FREE_REQUESTED, 0);
	return gm_agent_go_on(&before_delete, "libc10.so", GM_TORCH_CPU_DELETE);
}
