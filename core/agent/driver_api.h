/* Hooks of the driver's functions. */
#ifndef GM_AGENT_DRIVER_API_H
#define GM_AGENT_DRIVER_API_H

#include "agent/agent.h"

/* Hooks of the driver's functions in the place of pointers that PyTorch has taken already */
void gm_agent_driver_api_patch(const struct gm_agent_hook *hooks);
void gm_agent_driver_api_undo(void);

#endif
