/*
 * Preloaded into gpumem by a test: the process that is read is killed as its memory is read for the
 * $GPUMEM_TEST_KILL_AT-th time. So it ends at a known moment of the question. At $GPUMEM_TEST_INTERRUPT_AT gpumem
 * itself gets SIGINT. How often memory was read is written to $GPUMEM_TEST_READS at the end.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls;

static int wanted(const char *name)
{
	const char *value = getenv(name);
	return value ? atoi(value) : -1;
}

static __attribute__((destructor)) void tell(void)
{
	const char *path = getenv("GPUMEM_TEST_READS");
	FILE *file = path ? fopen(path, "we") : NULL;
	if (!file)
		return;
	fprintf(file, "%d\n", calls);
	fclose(file);
}

__attribute__((visibility("default"))) ssize_t process_vm_readv(pid_t pid,
        const struct iovec *local, unsigned long local_count, const struct iovec *remote,
        unsigned long remote_count, unsigned long flags)
{
	ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
	        unsigned long, unsigned long);
	*(void **)&real = dlsym(RTLD_NEXT, "process_vm_readv");
	int call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	if (call == wanted("GPUMEM_TEST_INTERRUPT_AT"))
		kill(getpid(), SIGINT);
	if (call == wanted("GPUMEM_TEST_KILL_AT")) {
		kill(pid, SIGKILL);
		while (kill(pid, 0) == 0) /* its parent ignores SIGCHLD, or waits for it */
			usleep(1000);
	}
	return real(pid, local, local_count, remote, remote_count, flags);
}
