/*
 * The native stacks of all threads at one moment: which part of them is alive, and whose frame a
 * word is in. A live process is stopped for that moment, unless we trace it already. Internal to
 * core/holders.
 */
#ifndef GM_HOLDERS_STACKS_H
#define GM_HOLDERS_STACKS_H

#include "holders/graph/graph.h"

struct gm_stack {
	pid_t thread;
	uint64_t pointer;    /* of its innermost frame */
	uint64_t start, end; /* as gm_stack_bounds() has them */
	uint64_t outermost;  /* where the frame begins in which the thread began */
	bool whole;          /* the thread began in the last frame that was found */
	size_t first,
	        count; /* of frames: their addresses and where their parts of the stack begin */
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
/* The part of a mapping that is the stack of the thread with that stack pointer: the whole mapping,
 * where that is not known. */
void gm_stack_bounds(struct gm_holders *graph, uint64_t pointer, const struct gm_mapping *mapping,
        uint64_t *ret_start, uint64_t *ret_end);
/* What a word of a stack is, and whose: the native stack of thread 12, in f(). The caller releases
 * the owner. It is NULL where nobody is (GM_STACK_DEAD, GM_STACK_CONTROL) or where there is no
 * memory. Reads the stacks, if that has not been done. */
enum gm_stack_part gm_stacks_part(struct gm_holders *graph, struct gm_stacks *stacks,
        const struct gm_mapping *mapping, uint64_t address, struct gm_native_owner **ret_owner);
void gm_stacks_deinit(struct gm_stacks *stacks);

#endif
