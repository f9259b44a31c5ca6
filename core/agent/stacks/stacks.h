/*
 * Call stacks of the calling thread, taken in the program itself and interned: the agent writes
 * only two numbers for each event.
 *
 *   stacks.c    one event's stacks
 *   thread.c    each thread's cache of its latest stacks; the process's tables
 *   memory.c    the memory for all of this, mapped once
 *   trie.c      interned stacks: a stack is its innermost frame and the stack below it
 *   python.c    finds CPython and walks a thread's frames
 *   code.c      code objects by number
 *   dying.c     the frame that is being torn down
 *   locals.c    values of local variables
 *   iterators.c    positions of iterators, which show a loop's iterations
 *   tasks.c     the coroutine that a thread runs
 *   borrow.c    the stack of the thread that waits in backward()
 *   waiter.c    finds that thread if there are several
 *   forward.c   the forward stack of the node whose backward runs
 *   native.c    walks the C stack
 *   seen.c      C stacks that the thread had before: compared, not walked
 *   rows.c      the location of a caller's frame, by program counter
 *   frame_table.c  .eh_frame, from which rows are made
 *   modules.c   loaded libraries, and whether they have changed
 *
 * No Python code runs, the GIL is not taken, no name is looked up. Memory is mapped once
 * (gm_stacks_start) and never grows; data that does not fit is left out, and reported as a gap. The
 * only lock is the loader's, held briefly to list the loaded libraries when an address is seen for
 * the first time.
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
