/*
 * Address ranges allocated from one span: for the simulated device's cudaMalloc and pinned memory.
 *
 * The ranges in use are in one array sorted by address. A device has at most some thousands (a
 * caching allocator asks for few, large segments), so the lowest gap that fits is found by walking
 * the array, and inserting moves its tail; a tree would be slower here and more complex.
 *
 * Not thread-safe: the caller locks. It allocates nothing but its array and touches no memory of
 * the ranges.
 */
#ifndef GM_SIM_RANGES_H
#define GM_SIM_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_sim_range {
	uint64_t start;
	uint64_t size;  /* bytes; the range ends before start + size */
	uint64_t value; /* the caller's */
};

struct gm_sim_ranges {
	struct gm_sim_range *items;
	size_t count, capacity;
	uint64_t used; /* the sum of all sizes */
};

void gm_sim_ranges_init(struct gm_sim_ranges *ranges);
void gm_sim_ranges_deinit(struct gm_sim_ranges *ranges);

/*
 * Takes the lowest free `size` bytes of [start, end) that begin at a multiple of `align` (a power
 * of two). False where no gap fits, or there is no host memory for the array.
 */
bool gm_sim_ranges_take(struct gm_sim_ranges *ranges, uint64_t start, uint64_t end, uint64_t size,
        uint64_t align, uint64_t value, uint64_t *ret);

/* Adds a range that the caller placed; false where it meets one that is there. */
bool gm_sim_ranges_add(struct gm_sim_ranges *ranges, uint64_t start, uint64_t size, uint64_t value);

/* The range that holds `address`, or NULL; valid until the set changes. */
const struct gm_sim_range *gm_sim_ranges_find(const struct gm_sim_ranges *ranges, uint64_t address);

/* Removes the range that begins at exactly `start`, giving what it was; false where there is
 * none. */
bool gm_sim_ranges_remove(struct gm_sim_ranges *ranges, uint64_t start, struct gm_sim_range *ret);

#endif
