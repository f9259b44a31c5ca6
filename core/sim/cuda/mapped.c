#include "sim/cuda/mapped.h"

struct gm_sim_mapped gm_sim_mapped = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gm_sim_vmm_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&gm_sim_mapped.lock);
	else
		pthread_mutex_unlock(&gm_sim_mapped.lock);
}

bool gm_sim_vmm_find(const void *address, struct gm_sim_view *ret)
{
	if (!atomic_load_explicit(&gm_sim_mapped.count, memory_order_acquire))
		return false;
	pthread_mutex_lock(&gm_sim_mapped.lock);
	const struct gm_sim_range *range =
	        gm_sim_ranges_find(&gm_sim_mapped.ranges, (uintptr_t)address);
	bool there = range && gm_sim_mapping_of(range)->accessible;
	if (there) {
		const struct gm_sim_mapping *mapping = gm_sim_mapping_of(range);
		uint64_t in = (uintptr_t)address - range->start;
		ret->device = mapping->physical->device;
		ret->at = (unsigned char *)mapping->physical->at + mapping->offset + in;
		ret->size = range->size - in;
	}
	pthread_mutex_unlock(&gm_sim_mapped.lock);
	return there;
}
