/* Lists the loaded libraries, and keeps forks out meanwhile. */
#include "agent/stacks/libraries.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/stacks/inside.h"

enum { YIELDS = 100, PAUSE_NS = 50000 };
_Static_assert(GM_LIBRARIES_PATIENCE == YIELDS + 2000000000 / PAUSE_NS, "two seconds");

static atomic_int listing, forking; /* threads */
static __thread int depth;          /* of this thread's lists within lists */

void gm_libraries_wait(int waited)
{
	int error = errno;
	if (waited < YIELDS)
		sched_yield();
	else /* not nanosleep(), in which a thread may be cancelled */
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0,
		        &(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	errno = error;
}

static void begin(void)
{
	for (int waited = 0;;) {
		atomic_fetch_add(&listing, 1);
		if (!atomic_load(&forking) || waited >= GM_LIBRARIES_PATIENCE)
			return;
		atomic_fetch_sub(&listing, 1);
		while (atomic_load(&forking) && waited < GM_LIBRARIES_PATIENCE)
			gm_libraries_wait(waited++);
	}
}

int gm_libraries_each(
        int (*callback)(struct dl_phdr_info *info, size_t size, void *context), void *context)
{
	if (depth++ == 0)
		begin();
	int result = dl_iterate_phdr(callback, context);
	if (--depth == 0)
		atomic_fetch_sub(&listing, 1);
	return result;
}

static void before_fork(void)
{
	int own = depth > 0;
	atomic_fetch_add(&forking, 1);
	for (int waited = 0; atomic_load(&listing) > own && waited < GM_LIBRARIES_PATIENCE;
	        waited++)
		gm_libraries_wait(waited);
}

static void after_fork(void)
{
	atomic_fetch_sub(&forking, 1);
}

/* Only this thread is in the child. */
static void in_child(void)
{
	atomic_store(&forking, 0);
	atomic_store(&listing, depth > 0);
	gm_stacks_in_child();
}

void gm_libraries_guard_forks(void)
{
	static atomic_bool guarded;
	if (!atomic_exchange(&guarded, true))
		pthread_atfork(before_fork, after_fork, in_child);
}
