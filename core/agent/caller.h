/* Who calls a hooked function of the CUDA runtime, and for which device. */
#ifndef GM_AGENT_CALLER_H
#define GM_AGENT_CALLER_H

#include "agent/agent.h"

/* Whether PyTorch's allocator calls from there */
bool gm_agent_is_allocator(uint64_t address);
/* The device that is current in this thread, by cudaGetDevice(); 0: not known. */
int16_t gm_agent_current_device(void);

#endif
