/*
 * PyTorch's own report of every block: counts blocks, and clears a block when it is allocated.
 *
 * The caching allocator calls c10::reportMemoryUsageToProfiler (libc10.so, c10/core/Allocator.cpp)
 * for each block that it allocates (size > 0) or frees (size < 0). A definition in a preloaded
 * library comes first, so this one is called; it always continues with the real one, where a
 * debugger may have its breakpoint.
 *
 * A reused block contains the data that was copied into it before, and no kernel overwrites them.
 * Zeroing its written bytes here makes every new block read as zero: sizes that depend on data
 * (nonzero, masks) then become zero instead of garbage.
 */
#include <dlfcn.h>

#include "sim/cuda/sim.h"

/* c10::Device (c10/core/Device.h): two int8, passed in one register. */
struct device {
	int8_t type, index;
};

enum { CUDA = 1 };

typedef void report_function(void *, int64_t, size_t, size_t, struct device);
typedef void oom_function(int64_t, size_t, size_t, struct device);
report_function _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;
oom_function _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE;

/* libc10's own function of that name, cached in *found; NULL if libc10 is not loaded. */
static void *real(const char *name, void *_Atomic *found)
{
	void *function = atomic_load_explicit(found, memory_order_acquire);
	if (function)
		return function;
	/* Python loads torch RTLD_LOCAL: RTLD_NEXT does not find it, its handle does. */
	void *library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
	if (!library)
		return NULL;
	function = dlsym(library, name);
	dlclose(library); /* torch itself keeps it loaded */
	atomic_store_explicit(found, function, memory_order_release);
	return function;
}

static void peak(uint64_t *now, uint64_t *most, uint64_t value)
{
	/* Called with the allocator's own lock held, so relaxed order suffices; readers see whole
	 * words. */
	__atomic_store_n(now, value, __ATOMIC_RELAXED);
	if (value > __atomic_load_n(most, __ATOMIC_RELAXED))
		__atomic_store_n(most, value, __ATOMIC_RELAXED);
}

GM_SIM_EXPORT void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
        void *pointer, int64_t size, size_t allocated, size_t reserved, struct device of)
{
	if (of.type == CUDA && !gm_sim_forked()) {
		struct gm_sim_device *device = gm_sim_device_of(pointer);
		if (device) {
			struct gm_sim_device_account *account = device->account;
			peak(&account->torch_allocated, &account->torch_peak_allocated, allocated);
			peak(&account->torch_reserved, &account->torch_peak_reserved, reserved);
			if (size > 0 && gm_sim_memory_holds(device, pointer, (uint64_t)size)) {
				gm_sim_range_finish(pointer, (uint64_t)size);
				gm_sim_data_zero(device, pointer, (uint64_t)size);
				gm_sim_graph_block(device, pointer, (uint64_t)size);
			}
		}
	}
	static void *_Atomic found;
	report_function *function;
	*(void **)&function = real("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", &found);
	if (function)
		function(pointer, size, allocated, reserved, of);
}

/* Called once for each torch.OutOfMemoryError, when the allocator has failed. */
GM_SIM_EXPORT void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
        int64_t size, size_t allocated, size_t reserved, struct device of)
{
	struct gm_sim_device *device =
	        of.type == CUDA && !gm_sim_forked() ? gm_sim_device_facts(of.index) : NULL;
	if (device)
		GM_SIM_COUNT(device->account->torch_out_of_memory, 1);
	static void *_Atomic found;
	oom_function *function;
	*(void **)&function = real("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", &found);
	if (function)
		function(size, allocated, reserved, of);
}
