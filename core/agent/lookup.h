/* Symbols of loaded libraries. */
#ifndef GM_AGENT_LOOKUP_H
#define GM_AGENT_LOOKUP_H

#include "agent/agent.h"

/* An address of a loaded library by its file's beginning and a dynamic symbol; NULL. Takes no
 * loader lock that a dlopen() in progress holds while constructors run. */
void *gm_agent_lookup(const char *library, const char *symbol);
/* The function that a hook goes on to: *before or, where none is known yet, the library's
 * own, which is then kept there. The library is loaded: its function is being called. */
void *gm_agent_go_on(void *_Atomic *before, const char *library, const char *symbol);

#endif
