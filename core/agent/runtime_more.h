/* The CUDA runtime's other ways to memory than cudaMalloc. */
#ifndef GM_AGENT_RUNTIME_MORE_H
#define GM_AGENT_RUNTIME_MORE_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_memory_hooks[];
/* Memory got or released by the function that `at` calls from; GM_AGENT_RUNTIME becomes
 * GM_AGENT_C10 where that is PyTorch's allocator. Between enter and leave. */
void gm_agent_memory(enum gm_agent_action action, enum gm_agent_source source, uint64_t address,
        uint64_t size, uint64_t stream, const struct gm_agent_registers *at);

#endif
