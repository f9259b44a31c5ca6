/* CUPTI's callbacks. */
#ifndef GM_AGENT_CUPTI_H
#define GM_AGENT_CUPTI_H

#include "agent/agent.h"

/* Subscribes where there is a driver and it has not been tried; to be called where libraries may be
 * loaded */
void gm_agent_cupti_look(void);

void gm_agent_cupti_end(void);
extern const struct gm_agent_hook gm_agent_cupti_hooks[];

#endif
