/* What the calling thread's Python functions have in their local variables. */
#ifndef GM_AGENT_STACKS_LOCALS_H
#define GM_AGENT_STACKS_LOCALS_H

#include <stdbool.h>
#include <stdint.h>

typedef void (*gm_stacks_local)(void *context, uint64_t object);

/* Finds the thread's frames as they are now. False: it has none, or they cannot be read. Between
 * gm_agent_enter() and gm_agent_leave(). */
bool gm_stacks_look(void);
/* Each object in a frame's locals, 0 is the innermost one; a variable of an inner function too is
 * in a cell, which is not looked through. False: there is no such frame. After gm_stacks_look(). */
bool gm_stacks_locals(uint32_t depth, gm_stacks_local visit, void *context);

#endif
