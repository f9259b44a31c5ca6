/* The tensor that a block is allocated for. */
#ifndef GM_AGENT_TENSORS_H
#define GM_AGENT_TENSORS_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_tensor_hooks[];
/* The description of the tensor for which this thread allocates `size` bytes, from a function whose
 * caller's stack pointer is `sp`; 0: not known. Between enter and leave. */
uint32_t gm_agent_tensor_take(uint64_t size, uint64_t sp);
void gm_agent_tensors_begin(void); /* a file begins: none is known */

#endif
