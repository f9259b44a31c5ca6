/* Which addresses of a device are in use, and how much is left. */
#ifndef GM_SIM_CAPACITY_H
#define GM_SIM_CAPACITY_H

#include "sim/cuda/sim.h"

/* The first address that is handed out; before it is the context's own part. */
uint64_t gm_sim_capacity_first(const struct gm_sim_device *device);
/* `whole` bytes, whole pages. `value` is what the program may use of it, 0 for memory that has no
 * address of its own. False: there are not as many. */
bool gm_sim_capacity_take(
        struct gm_sim_device *device, uint64_t whole, uint64_t value, uint64_t *ret);
/* physical: of memory without an address of its own. False: there is no such range. */
bool gm_sim_capacity_give(struct gm_sim_device *device, void *address, bool physical);

#endif
