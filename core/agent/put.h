/* A record into the thread's buffer of the file. */
#ifndef GM_AGENT_PUT_H
#define GM_AGENT_PUT_H

#include "agent/agent.h"

/*
 * Writes something interned, before the first event that refers to it, by the thread that made it;
 * between enter and leave. `bytes`: the payload as agent/format.h says, without the id, which is
 * put in front of it. An id of a kind is written once a process; ids count from 1. False: no space;
 * then the id must not be used (use 0), and may be tried again.
 */
bool gm_agent_put(enum gm_agent_record kind, uint32_t id, const void *bytes, size_t count);

#endif
