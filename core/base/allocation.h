/*
 * Whether an allocation failed: one flag of the process for all allocations of gpumem.
 *
 * Much of the analysis is a search. A step of a search that gets no memory finds nothing, and the
 * answer would be wrong without an error. So a result that was computed while an allocation failed
 * is discarded: the session clears the flag before a command and checks it afterwards.
 *
 * The program and the library are linked with `--wrap` for each function below that allocates
 * (cmake/rooms.cmake): every call in gpumem's own code goes to allocation_wrap.c, which sets the
 * flag. Unit tests and the agent are linked with the plain functions, and their flag stays unset.
 * mmap() is not wrapped: callers that map large areas have an alternative or report an error.
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
