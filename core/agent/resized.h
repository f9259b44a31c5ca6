/* The tensor that a storage is resized for. */
#ifndef GM_AGENT_RESIZED_H
#define GM_AGENT_RESIZED_H

#include "agent/agent.h"

extern const struct gm_agent_hook gm_agent_resize_hooks[];

#endif
