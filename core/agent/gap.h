/* Holes in the recording. */
#ifndef GM_AGENT_GAP_H
#define GM_AGENT_GAP_H

#include "agent/agent.h"

/* A hole in the recording and why, reported once for each text. Between enter and leave or not. */
void gm_agent_gap(const char *text);
/* A file begins: nothing has been told in it. */
void gm_agent_gaps_begin(void);
/* Writes those that came before there was a file. Between enter and leave. */
void gm_agent_gaps_put_early(void);
/* The recording ends: what came before its file is no hole of the next one. */
void gm_agent_gaps_end(void);
/* Writes one, without asking whether it was told before. Between enter and leave. */
void gm_agent_gap_put(const char *text);

#endif
