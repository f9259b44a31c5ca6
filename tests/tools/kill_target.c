/*
 * Preloaded into gpumem by a test: the process that is read is killed as its memory is read for the
 * $GPUMEM_TEST_KILL_AT-th time. So it ends at a known moment of the question. At
 * $GPUMEM_TEST_INTERRUPT_AT gpumem itself gets SIGINT. How often memory was read is written to
 * $GPUMEM_TEST_READS at the end.
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

/* It has ended, or is a zombie for which its tracer (gpumem itself, in a pause) has not waited. */
static int is_gone(pid_t pid)
{
	char path[64], line[256], state = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 1;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "State: %c", &state) == 1)
			break;
	fclose(file);
	return state == 'Z';
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
		while (!is_gone(pid))
			usleep(1000);
	}
	return real(pid, local, local_count, remote, remote_count, flags);
}
