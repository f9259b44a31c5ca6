/*
 * Hooks in the import tables of a running program's libraries: this is how an agent that was loaded
 * later intercepts functions, including those that a program looks up by name.
 *
 * Each library calls imported functions through its own table (the GOT). The agent replaces the
 * entries of the hooked symbols, also in libraries that are loaded later, and restores them at the
 * end. Calls within a library that bypass its table are not seen, nor calls through a pointer that
 * was obtained earlier.
 */
#ifndef GM_AGENT_PATCH_H
#define GM_AGENT_PATCH_H

#include "agent/agent.h"

/* Puts these in, now and in libraries to come. The table stays where it is. Again: nothing new. */
void gm_agent_patch(const struct gm_agent_hook *hooks);
/* What is called where the program has loaded more libraries (`libraries`), and where it has loaded
 * PyTorch to its last one
 * (`torch`), by the thread that did. */
void gm_agent_patch_on_load(void (*libraries)(void), void (*torch)(void));
/* The function of that name in the first loaded library that has it, as the loader would find it;
 * NULL. */
void *gm_agent_find(const char *symbol);
/* A recording has begun: what is not hooked is missing in it. */
void gm_agent_patch_gaps(void);
/* Puts back what was there. Threads that are within a hook go on in it: the agent stays in
 * memory. */
void gm_agent_patch_undo(void);

#endif
