/*
 * Call stacks of the calling thread, taken in the program itself and interned: what the agent
 * writes of an event is two numbers.
 *
 *   stacks.c    one event's stacks
 *   thread.c    each thread's memory of its last ones; the tables of the process
 *   memory.c    the memory that all of this uses, got once
 *   trie.c      stacks by number: a stack is its innermost frame and the stack below it
 *   python.c    finds CPython and walks a thread's frames
 *   code.c      code objects by number
 *   dying.c     the frame that is being torn down
 *   locals.c    what is in local variables
 *   iterators.c    how far a loop of the program has come
 *   tasks.c     which of the coroutines that take turns in a thread
 *   borrow.c    the stack of the thread that waits in backward()
 *   waiter.c    which of several that is
 *   forward.c   where the forward pass made the node whose backward runs
 *   native.c    walks the C stack
 *   seen.c      C stacks that the thread had before: checked, not walked
 *   rows.c      where a caller's frame is, by program counter
 *   frame_table.c  .eh_frame, from which rows are made
 *   modules.c   what is loaded, and whether that has changed
 *
 * No Python code runs, the GIL is not taken, no name is looked up. Memory is mapped once
 * (gm_stacks_start) and never grows; what does not fit is left out, and told as a gap. There are no
 * locks but the loader's own short one, in which it lists what is loaded, when an address is met
 * for the first time.
 */
#ifndef GM_AGENT_STACKS_STACKS_H
#define GM_AGENT_STACKS_STACKS_H

#include "agent/agent.h"
#include "agent/stacks/options.h"

enum gm_stacks_flags {
	GM_STACKS_BORROWED = 1, /* the Python stack is that of the thread waiting in backward(): as
	                           GM_EVENT_BORROWED */
};

/* Ids as in the file; 0: none. */
struct gm_agent_stacks {
	uint32_t python, native;
	uint32_t evidence; /* of a free: what was being torn down */
	uint32_t flags;    /* enum gm_stacks_flags */
};

/*
 * Begins with no stack known, as a new file has none: at start, and in a forked child. No thread
 * may be within gm_stacks_take(). False: no memory; then gm_stacks_take() gives none.
 */
bool gm_stacks_start(const struct gm_stacks_options *options);

/*
 * Between gm_agent_enter() and gm_agent_leave(). `at`: the function with which the native stack
 * begins. `freed`: the event is a free, so what is being torn down is of interest. Writes what is
 * new with gm_agent_put().
 */
void gm_stacks_take(const struct gm_agent_registers *at, bool freed, struct gm_agent_stacks *ret);

/* Says which task this thread runs, where its events have told of one before. Between
 * gm_agent_enter() and gm_agent_leave(). */
void gm_stacks_see_task(void);

/* Bytes of memory that can be used at most, all tables together but those of a thread; and that of
 * a thread. */
size_t gm_stacks_memory(size_t *ret_per_thread);

#endif
