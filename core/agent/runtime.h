/* The CUDA runtime's cudaMalloc and cudaFree. */
#ifndef GM_AGENT_RUNTIME_H
#define GM_AGENT_RUNTIME_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_runtime_hooks[];

#endif
