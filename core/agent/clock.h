/* The time of events. */
#ifndef GM_AGENT_CLOCK_H
#define GM_AGENT_CLOCK_H

#include "agent/agent.h"

/* Ns since the epoch */
void gm_agent_clock_begin(void);
/* False: a look at the clock would end the thread (PR_SET_TSC). */
bool gm_agent_clock_allowed(void);
uint64_t gm_agent_now(void);

#endif
