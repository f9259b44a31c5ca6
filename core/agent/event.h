/* An event into bytes. */
#ifndef GM_AGENT_EVENT_H
#define GM_AGENT_EVENT_H

#include "agent/agent.h"

/* Between enter and leave. Takes stacks, gives the event its place in the order of all threads' and
 * writes it. Call it while the allocator's own lock is held, or such that no other thread can get
 * the same address meanwhile. */
void gm_agent_event(const struct gm_agent_event *event);
/* Numbers and counters from the start; the id of this process's file, for its children */
void gm_agent_events_begin(void);
void gm_agent_keep_id(uint64_t id);
uint64_t gm_agent_kept_id(void);

#endif
