/* Events at which a debugger stops the program. */
#ifndef GM_AGENT_STOPS_H
#define GM_AGENT_STOPS_H

#include "agent/agent.h"
#include "agent/stacks/stacks.h"

/* Of a recording that begins. */
void gm_agent_stops_begin(void);
/* Events with this number or a later one are reported to the next function. */
GM_AGENT_EXPORT extern _Atomic uint64_t gpumem_agent_stops;
/* An event that has just been written, by its thread. */
void gm_agent_stops_see(const struct gm_agent_event *event, const struct gm_agent_stacks *stacks,
        uint64_t sequence);
/* This thread has found something that is not finite in gradients. */
void gm_agent_stops_found(void);

#endif
