/* What is at addresses that the program mapped with the driver's virtual-memory calls (vmm.c). */
#ifndef GM_SIM_MAPPED_H
#define GM_SIM_MAPPED_H

#include "sim/cuda/sim.h"

#include <cuda.h>

/* A physical allocation: lives while its handle or a mapping of it does. */
struct gm_sim_physical {
	struct gm_sim_device *device;
	void *at; /* in the device's own mapping */
	uint64_t size;
	CUmemAllocationProp properties;
	unsigned handles, mappings;
	bool imported; /* another process's: it counts there */
	struct gm_sim_physical *next;
};

/* One cuMemMap: the value of its range in `mapped`. */
struct gm_sim_mapping {
	struct gm_sim_physical *physical;
	uint64_t offset; /* in the allocation */
	bool accessible;
};

extern struct gm_sim_mapped {
	pthread_mutex_t lock;
	struct gm_sim_ranges ranges; /* the value of each: its mapping */
	_Atomic size_t count;        /* of mappings: a program without any asks no lock */
} gm_sim_mapped;

static inline struct gm_sim_mapping *gm_sim_mapping_of(const struct gm_sim_range *range)
{
	return (struct gm_sim_mapping *)(uintptr_t)range->value;
}

#endif
