/*
 * glibc's record of a thread, struct pthread (nptl/descr.h), as far as it says where the thread's
 * stack is. Internal to core/holders.
 */
#ifndef GM_HOLDERS_THREAD_RECORD_H
#define GM_HOLDERS_THREAD_RECORD_H

#include "image/image.h"

/* A stack, of the addresses from `start` up to `end`, without its guard area. */
struct gm_stack_range {
	uint64_t start, end;
	uint64_t record; /* the thread's, near the end, with its own variables below; 0: none */
};

/* The stack that glibc has recorded for the thread with these registers: where the thread pointer
 * leads, or, where that is not known, somewhere above the stack pointer, up to `last`. False: there
 * is none, or it names no stack, as for a process's first thread. */
bool gm_thread_record_find(struct gm_image *image, const struct gm_registers *registers,
        uint64_t last, struct gm_stack_range *ret);

#endif
