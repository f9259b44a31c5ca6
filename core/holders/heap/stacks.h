/*
 * The native stacks of all threads at one moment: which part of them is alive, and whose frame a
 * word is in. A live process is stopped for that moment, unless we trace it already. Internal to
 * core/holders.
 */
#ifndef GM_HOLDERS_STACKS_H
#define GM_HOLDERS_STACKS_H

#include "holders/graph/graph.h"
#include "holders/heap/thread_record.h"

struct gm_stack {
	pid_t thread;
	uint64_t pointer; /* of its innermost frame; what is below is not in use */
	struct gm_stack_range range;
	uint64_t outermost; /* where the frame begins in which the thread began */
	bool whole;         /* the thread began in the last frame that was found */
	/* frames: their addresses and where their parts of the stack begin */
	size_t first, count;
	size_t walk_first, walk_count; /* all that were found from the registers on: a handler's
	                                  are followed by those of the stack that was left */
	struct gm_registers registers;
};

struct gm_stacks {
	bool read;
	GM_ARRAY(struct gm_stack) items;
	GM_ARRAY(uint64_t) addresses;
	GM_ARRAY(uint64_t) pointers;
};

enum gm_stack_part {
	GM_STACK_UNKNOWN, /* the thread's registers could not be had */
	GM_STACK_DEAD,    /* below the stack pointer */
	GM_STACK_FRAME,
	GM_STACK_DATA,    /* the thread's own variables, which lie above its frames */
	GM_STACK_CONTROL, /* what the C library notes of the thread; arguments and environment */
};

/* Reads the stacks, if that has not been done. */
void gm_stacks_read(struct gm_holders *graph, struct gm_stacks *stacks);
/* Is the address, which is in that mapping, in a thread's stack? Reads the stacks where the mapping
 * does not tell. */
bool gm_is_stack(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address);
/*
 * The stack on which a thread with these registers runs: the one that the C library gave it, or
 * memory of the program's own (a handler of signals, a fiber): then a chunk of the heap, or the
 * whole mapping. *ret_left is the one that the C library gave it where it runs on another one;
 * else its `end` is 0. False: the stack on which it runs is not known.
 */
bool gm_stack_range_find(struct gm_holders *graph, const struct gm_registers *registers,
        struct gm_stack_range *ret_used, struct gm_stack_range *ret_left);
/* What a word of a stack is, and whose: the native stack of thread 12, in f(). The caller releases
 * the owner. It is NULL where nobody is (GM_STACK_DEAD, GM_STACK_CONTROL) or where there is no
 * memory. Reads the stacks, if that has not been done. */
enum gm_stack_part gm_stacks_part(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address, struct gm_native_owner **ret_owner);
void gm_stacks_deinit(struct gm_stacks *stacks);

#endif
