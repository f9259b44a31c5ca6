/*
 * Preloaded into gpumem by a test: the process that is read is killed as its memory is read for the
 * $GPUMEM_TEST_KILL_AT-th time. So it ends at a known moment of the question.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid,
        const struct iovec *local, unsigned long local_count, const struct iovec *remote,
        unsigned long remote_count, unsigned long flags)
{
	static int calls;
	ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
	        unsigned long, unsigned long);
	*(void **)&real = dlsym(RTLD_NEXT, "process_vm_readv");
	const char *at = getenv("GPUMEM_TEST_KILL_AT");
	if (at && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == atoi(at)) {
		kill(pid, SIGKILL);
		while (kill(pid, 0) == 0) /* its parent ignores SIGCHLD, so it goes by itself */
			usleep(1000);
	}
	return real(pid, local, local_count, remote, remote_count, flags);
}
