/*
 * What PyTorch and CUDA's libraries take of a device beside the context.
 *
 * CUDA loads code when it is first used (CUDA_MODULE_LOADING=LAZY, the default): PyTorch's kernels
 * with the first of them that is launched, a library's with its first handle, which has memory of
 * its own too. On a device that is nearly full the call would fail; here nothing is taken then.
 */
#include <dlfcn.h>
#include <string.h>

#include "sim/cuda/sim.h"

void gm_sim_code_load(struct gm_sim_device *device, enum gm_sim_code what)
{
	const uint64_t *loads = device->choice.profile.loads;
	if (loads && !atomic_exchange(&device->loaded[what], true))
		gm_sim_memory_outside(device, (int64_t)loads[what]);
}

enum owner { NOT_KNOWN, PYTORCH, OTHER };

static enum owner owner_of(const struct gm_sim_kernel *kernel)
{
	Dl_info found;
	if (!kernel->host || !dladdr(kernel->host, &found) || !found.dli_fname)
		return OTHER;
	const char *name = strrchr(found.dli_fname, '/');
	name = name ? name + 1 : found.dli_fname;
	return strncmp(name, "libtorch_cuda", 13) == 0 ? PYTORCH : OTHER;
}

void gm_sim_code_load_of_kernel(struct gm_sim_device *device, struct gm_sim_kernel *kernel)
{
	if (!device->choice.profile.loads ||
	        atomic_load_explicit(&device->loaded[GM_SIM_CODE_TORCH], memory_order_relaxed))
		return;
	if (kernel->owner == NOT_KNOWN)
		kernel->owner = owner_of(kernel);
	if (kernel->owner == PYTORCH)
		gm_sim_code_load(device, GM_SIM_CODE_TORCH);
}
