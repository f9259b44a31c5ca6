/*
 * Whether memory could be had: one flag of the process for all allocations of gpumem.
 *
 * Much of the analysis is a search. Where one step of a search gets no memory it finds nothing, and
 * the answer would be another one without any error. So nothing that was worked out while an
 * allocation failed is an answer: the session forgets the flag before a command and looks at it
 * behind.
 *
 * The program and the library are linked with `--wrap` for each function below that allocates
 * (cmake/rooms.cmake): every call in gpumem's own code comes to allocation_wrap.c, which sets the
 * flag. What is linked otherwise, as unit tests and the agent are, has plain malloc() and a flag
 * that stays unset. mmap() is not wrapped: who maps something large has another way, or an error.
 */
#ifndef GM_BASE_ALLOCATION_H
#define GM_BASE_ALLOCATION_H

#include <stdbool.h>
#include <stddef.h>

/* Whether an allocation has failed since the flag was last forgotten; of any thread. */
bool gm_allocation_failed(void);

void gm_allocation_forget(void);

/* Sets the flag: for allocations that do not come through the functions that are wrapped. */
void gm_allocation_note_failure(void);

/* Around calls of a library that allocates by itself: sets the flag if ENOMEM was the last error of
 * this thread's in between. */
void gm_allocation_watch(void);
void gm_allocation_watched(void);

#endif
