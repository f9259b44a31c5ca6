/*
 * How much memory the machine has left for this process before the kernel ends it: the simulated
 * device's bytes are the host's.
 *
 * The least of what /proc/meminfo calls available and what each memory control group above the
 * process leaves (version 2's memory.max, version 1's memory.limit_in_bytes; file pages that are
 * not in use count as free). It knows no CUDA and keeps nothing.
 */
#ifndef GM_SIM_HOST_MEMORY_H
#define GM_SIM_HOST_MEMORY_H

#include <stdint.h>

struct gm_sim_host_memory {
	uint64_t left;  /* bytes; UINT64_MAX where nothing says */
	uint64_t whole; /* of the machine or the group that leaves the least */
};

/* `root` is "" but for tests: before /proc and /sys. */
void gm_sim_host_memory(const char *root, struct gm_sim_host_memory *ret);

#endif
