/* Which allocator PyTorch has. */
#ifndef GM_AGENT_ALLOCATOR_H
#define GM_AGENT_ALLOCATOR_H

#include "agent/agent.h"

/* Tells, once, where PyTorch's allocator is one that reports nothing */
void gm_agent_allocator_look(void);

#endif
