/* What is done at an out-of-memory error. */
#ifndef GM_AGENT_OOM_H
#define GM_AGENT_OOM_H

#include "agent/agent.h"

/* Does what on_oom asks for, once; between enter and leave */
void gm_agent_out_of_memory(const struct gm_agent_event *event);

#endif
