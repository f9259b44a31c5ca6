/* Runs another program next to this one, which notices nothing of it. */
#ifndef GM_AGENT_ASIDE_H
#define GM_AGENT_ASIDE_H

#include <stdbool.h>

/*
 * Waits for at most `milliseconds`; a program that takes longer is killed. `out`: its standard
 * output; -1: none. True: it ended by itself, with status 0. The calling thread must not be
 * cancelled meanwhile.
 */
bool gm_agent_run_aside(
        char *const *arguments, char *const *environment, int out, unsigned milliseconds);

#endif
