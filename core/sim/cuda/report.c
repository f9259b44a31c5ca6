/*
 * PyTorch's own report of every block, taken in front of libc10's: its counts for the account, and each
 * block zeroed as it is handed out. The caching allocator hands out old blocks again, and kernels that
 * compute nothing would leave a predecessor's bytes in them; data-dependent sizes (nonzero, masks, unique)
 * would then read garbage. A block nothing was copied to costs nothing to zero.
 *
 * c10/core/Allocator.h: void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device), where
 * Device is two signed bytes: type and index.
 */
#include <dlfcn.h>

#include "sim/cuda/sim.h"

struct device {
	signed char type, index;
};
enum { DEVICE_TYPE_CUDA = 1 };

typedef void (*report_function)(void *, int64_t, size_t, size_t, struct device);

#define REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
GM_SIM_EXPORT void REPORT(
	void *address, int64_t size, size_t allocated, size_t reserved, struct device device);

static void maximum(uint64_t *peak, uint64_t now)
{
	/* The allocator's lock is held by whoever reports, so each device has one writer. */
	if (now > *peak)
		__atomic_store_n(peak, now, __ATOMIC_RELAXED);
}

static report_function real(void)
{
	static _Atomic(report_function) found;
	report_function function = atomic_load_explicit(&found, memory_order_acquire);
	if (!function) {
		/* Python loads torch RTLD_LOCAL, so RTLD_NEXT would not find it. */
		void *library = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
		function = library ? (report_function)dlsym(
					     library, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE") :
				     NULL;
		atomic_store_explicit(&found, function, memory_order_release);
	}
	return function;
}

void REPORT(void *address, int64_t size, size_t allocated, size_t reserved, struct device which)
{
	if (which.type == DEVICE_TYPE_CUDA) {
		struct gm_sim_device *device = gm_sim_device_of(address);
		if (device) {
			struct gm_sim_device_account *account = device->account;
			__atomic_store_n(&account->torch_allocated, allocated, __ATOMIC_RELAXED);
			__atomic_store_n(&account->torch_reserved, reserved, __ATOMIC_RELAXED);
			maximum(&account->torch_peak_allocated, allocated);
			maximum(&account->torch_peak_reserved, reserved);
			if (size > 0)
				gm_sim_data_zero(device, address, (uint64_t)size);
		}
	}
	report_function forward = real();
	/*
	 * Last, so that it is a jump: registers and stack are then as PyTorch left them, which a debugger
	 * at libc10's function relies on.
	 */
	if (forward)
		forward(address, size, allocated, reserved, which);
}
