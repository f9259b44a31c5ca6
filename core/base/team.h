/*
 * A few threads that share the pieces of one piece of work.
 */
#ifndef GM_BASE_TEAM_H
#define GM_BASE_TEAM_H

#include <stddef.h>

enum { GM_TEAM_MOST = 8 };

/* As many as the machine has processors, at most GM_TEAM_MOST. */
unsigned gm_team_size(void);

/* Calls work(context, number) for each number below `count`, in any order, by as many threads as
 * are of use; the caller's is one of them. Where no thread can be had, the caller does all of it.
 */
void gm_team_run(size_t count, void (*work)(void *context, size_t number), void *context);

#endif
