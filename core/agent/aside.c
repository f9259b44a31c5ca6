/*
 * A child of this process sends SIGCHLD when it ends, which the program may handle; its handler may
 * wait for the child in the agent's place; and if the program ignores the signal, the child's
 * status is lost. So the program that runs is the child of a process between, which is no usual
 * child: its exit signal is 0. No signal is sent when it ends, only a wait for clones (__WCLONE)
 * finds it, and its status is kept. (An execve() would make SIGCHLD of the exit signal, so it has
 * to wait for another process.)
 *
 * The process between has this process's memory, descriptors and thread pointer, and its thread
 * runs here at the same time. So it makes only system calls that libc does not cancel.
 */
#include "agent/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20, STACK = 64 << 10, FAILED = 127 };

struct task {
	char *const *arguments, *const *environment;
	int out;
	sigset_t mask;   /* the calling thread's */
	uint8_t *stacks; /* two */
};

/* The program's handlers are not to run in the new process, whose memory is the program's. */
static void reset_handlers(void)
{
	for (int number = 1; number < NSIG; number++) {
		struct sigaction action;
		if (sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_IGN)
			continue;
		action = (struct sigaction){.sa_handler = SIG_DFL};
		sigaction(number, &action, NULL);
	}
}

/* Those that the program has closed: a file that the new process opens would be taken for one. */
static bool open_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (syscall(SYS_fcntl, fd, F_GETFD) < 0 &&
		        syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0) != fd)
			return false;
	return true;
}

static int execute(void *context)
{
	const struct task *task = context;
	int out = task->out;
	reset_handlers();
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (!open_standard_descriptors())
		return FAILED;
	if (out < 0)
		out = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY, 0);
	if (out < 0 || syscall(SYS_dup2, out, STDOUT_FILENO) < 0)
		return FAILED;
	sigprocmask(SIG_SETMASK, &task->mask, NULL);
	syscall(SYS_execve, task->arguments[0], task->arguments, task->environment);
	return FAILED;
}

/* The process between: all signals are blocked in it. */
static int run_between(void *context)
{
	struct task *task = context;
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	int status;
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	sigaction(SIGCHLD, &usual, NULL);
	pid_t child =
	        clone(execute, task->stacks + 2 * STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, task);
	if (child < 0 || syscall(SYS_wait4, child, &status, 0, NULL) != child)
		return FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}

/* True: the child has ended. */
static bool wait_for(pid_t child, unsigned milliseconds, int *ret_status)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		pid_t ended = waitpid(child, ret_status, WNOHANG | __WCLONE);
		if (ended == child)
			return true;
		if (ended < 0 && errno != EINTR)
			return false;
		clock_gettime(CLOCK_MONOTONIC, &now);
		int64_t passed = (now.tv_sec - begin.tv_sec) * INT64_C(1000) +
		                 (now.tv_nsec - begin.tv_nsec) / 1000000;
		if (passed > milliseconds)
			return false;
		nanosleep(&pause, NULL);
	}
}

bool gm_agent_run_aside(
        char *const *arguments, char *const *environment, int out, unsigned milliseconds)
{
	struct task task = {.arguments = arguments, .environment = environment, .out = out};
	void *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return false;
	task.stacks = stacks;
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &task.mask);
	/* not traced: a debugger would take it for a thread of the program */
	pid_t child = clone(run_between, task.stacks + STACK,
	        CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_UNTRACED, &task);
	pthread_sigmask(SIG_SETMASK, &task.mask, NULL);
	int status = -1;
	bool ended = child > 0 && wait_for(child, milliseconds, &status);
	if (ended || child < 0) {
		munmap(stacks, 2 * STACK);
		return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	/* with it, its own child is killed, which may need the stacks until then */
	kill(child, SIGKILL);
	while (waitpid(child, &status, __WCLONE) < 0 && errno == EINTR)
		;
	return false;
}
