/*
 * The loaded libraries. The loader holds a lock while it lists them, and a child that another
 * thread forks meanwhile has that lock locked for ever: its first dlopen() would never return
 * (seen with glibc 2.36). So a fork waits until no thread of the agent lists libraries.
 */
#ifndef GM_AGENT_STACKS_LIBRARIES_H
#define GM_AGENT_STACKS_LIBRARIES_H

#include <link.h>

/* From here on forks wait. To be called before the agent's first long list. */
void gm_libraries_guard_forks(void);

/* dl_iterate_phdr(3), also from within its callback. */
int gm_libraries_each(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *context), void *context);

/*
 * A moment's pause in a loop that waits for another thread; `waited`: how many there were before.
 * After the patience (two seconds) a loop goes on regardless: a signal's handler may have
 * interrupted the thread that it waits for.
 */
enum { GM_LIBRARIES_PATIENCE = 40100 };
void gm_libraries_wait(int waited);

#endif
