/* Collectives: the calls of NCCL. */
#ifndef GM_AGENT_COLLECTIVES_H
#define GM_AGENT_COLLECTIVES_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_collective_hooks[];

#endif
