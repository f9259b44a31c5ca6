/* What libc10 reports. */
#ifndef GM_AGENT_HOOKS_H
#define GM_AGENT_HOOKS_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_c10_hooks[];
/* Preloaded: what another preloaded library has in the place of libc10's and the runtime's
 * functions. */
void gm_agent_hooks_preloaded(void);
/* A recording begins. */
void gm_agent_hooks_begin(void);

#endif
