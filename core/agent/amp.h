/* What GradScaler and autocast do. */
#ifndef GM_AGENT_AMP_H
#define GM_AGENT_AMP_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_amp_hooks[];
/* Before the event of an allocation, from a function whose caller's stack pointer is `sp`: says of
 * which tensor it is autocast's copy, where it is one. Between enter and leave. */
void gm_agent_amp_cast(uint64_t sp);

#endif
