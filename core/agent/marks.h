/* Marks of the program. */
#ifndef GM_AGENT_MARKS_H
#define GM_AGENT_MARKS_H

#include "agent/agent.h"

/* A range of this thread; where nothing is recorded yet it is kept until something is. The name
 * stays where it is until the range ends. */
void gm_agent_range_begin(const char *name);
void gm_agent_range_end(void);
/* This thread's ranges that were kept; recording has begun. */
void gm_agent_ranges_kept(void);
void gm_agent_metadata(const char *text, size_t size);

#endif
