#include "sim/cuda/capacity.h"

/* The device's own part (symbols of modules) comes before the memory for allocations. */
uint64_t gm_sim_capacity_first(const struct gm_sim_device *device)
{
	return (uintptr_t)device->base +
	       ((device->account->context + GM_SIM_PAGE - 1) & ~(uint64_t)(GM_SIM_PAGE - 1));
}

/*
 * Takes `more` bytes of the device for this process, or returns them (negative). The caller holds
 * the device's lock and has checked that they fit beside the process's own memory. False if the
 * run's other processes leave too little.
 */
static bool share(struct gm_sim_device *device, int64_t more)
{
	const struct gm_sim_device_account *account = device->account;
	return gm_sim_share_set(device,
	        account->context + account->used + device->outside + (uint64_t)more, more > 0);
}

bool gm_sim_capacity_take(
        struct gm_sim_device *device, uint64_t whole, uint64_t value, uint64_t *ret)
{
	struct gm_sim_device_account *account = device->account;
	pthread_mutex_lock(&device->lock);
	bool fits = whole <= account->total - account->context - account->used - device->outside &&
	            gm_sim_ranges_take(&device->ranges, gm_sim_capacity_first(device),
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

bool gm_sim_capacity_give(struct gm_sim_device *device, void *address, bool physical)
{
	/* Released before it can be taken again; unmapped ranges are not touched. */
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
