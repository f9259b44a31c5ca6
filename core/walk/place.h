/* Where the agent has in its process what the debugger writes: addresses of the symbols named
 * gpumem_agent_stops, _stop_filter, _stop_never_python, _native, _tensor. */
#ifndef GM_WALK_PLACE_H
#define GM_WALK_PLACE_H

#include <stdint.h>

struct gm_walk_place {
	uint64_t stops, filter, never_python, never_native, never_tensor;
};

#endif
