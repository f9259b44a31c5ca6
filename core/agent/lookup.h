/* Symbols of loaded libraries. */
#ifndef GM_AGENT_LOOKUP_H
#define GM_AGENT_LOOKUP_H

#include "agent/agent.h"

/* An address of a loaded library by its file's beginning and a dynamic symbol; NULL. Takes no
 * loader lock that a dlopen() under way holds while constructors run. */
void *gm_agent_lookup(const char *library, const char *symbol);

#endif
