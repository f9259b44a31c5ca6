/*
 * Hooks in the import tables of the libraries of a running program: how an agent that was loaded
 * later comes before a function, and how it sees functions that a program looks up by name.
 *
 * Each library calls what it imports through a table of its own (the GOT). Its entries for the
 * hooked symbols are replaced, those of libraries that are loaded later as well, and put back in
 * the end. A call within one library that does not go through its table is not seen; neither is one
 * through a pointer that was taken before.
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
/* Puts back what was there. Threads that are within a hook go on in it: the agent stays in
 * memory. */
void gm_agent_patch_undo(void);

#endif
