/* Takes memory of a device; managed memory moves to the host to make space. */
#include "sim/cuda/capacity.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/sim.h"

/* `value` is the part that the program may use; 0 for memory without an address of its own (vmm.c).
 * */
static int take(struct gm_sim_device *device, uint64_t size, uint64_t value, void **ret)
{
	struct gm_sim_device_account *account = device->account;
	uint64_t whole = (size + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1), address = 0;
	/* Managed memory moves to the host. */
	if (size <= account->total &&
	        (gm_sim_capacity_take(device, whole, value, &address) ||
	                (gm_sim_managed_evict(device) &&
	                        gm_sim_capacity_take(device, whole, value, &address)))) {
		*ret = (void *)(uintptr_t)address;
		return cudaSuccess;
	}
	GM_SIM_COUNT(account->out_of_memory, 1);
	return cudaErrorMemoryAllocation;
}

int gm_sim_memory_take(struct gm_sim_device *device, uint64_t size, void **ret)
{
	return take(device, size, size, ret);
}

int gm_sim_memory_take_physical(struct gm_sim_device *device, uint64_t size, void **ret)
{
	return take(device, size, 0, ret);
}

void gm_sim_memory_give(struct gm_sim_device *device, void *address)
{
	gm_sim_capacity_give(device, address, true);
}
