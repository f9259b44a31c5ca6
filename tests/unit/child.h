/*
 * A child process for tests that read another process: forked, it says over a pipe where its things
 * are and then waits to be killed. Header-only, as each test is a program of its own.
 */
#ifndef GM_TESTS_CHILD_H
#define GM_TESTS_CHILD_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
	pid_t pid;
	uint64_t words[8]; /* what the child said */
};

/* Runs in the child: fills in words to say and returns. */
typedef void (*child_prepare)(uint64_t *words);

static inline struct child child_start(child_prepare prepare)
{
	int ends[2];
	struct child child = {0};
	if (pipe(ends) != 0)
		abort();
	child.pid = fork();
	if (child.pid < 0)
		abort();
	if (child.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		uint64_t words[8] = {0};
		prepare(words);
		if (write(ends[1], words, sizeof(words)) != sizeof(words))
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], child.words, sizeof(child.words)) != sizeof(child.words))
		abort();
	close(ends[0]);
	return child;
}

static inline void child_end(struct child *child)
{
	if (child->pid > 0) {
		kill(child->pid, SIGKILL);
		waitpid(child->pid, NULL, 0);
	}
	child->pid = 0;
}

/* Returns when the thread waits in the kernel, as in pause(): whoever is only kept from running is
 * not meant. */
static inline void child_sleeps(pid_t pid, pid_t thread)
{
	char path[64], line[512];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)thread);
	for (;;) {
		FILE *file = fopen(path, "r");
		if (!file || !fgets(line, sizeof(line), file))
			abort();
		fclose(file);
		const char *state = strrchr(line, ')');
		if (!state || strchr("ZX", state[2]))
			abort();
		if (state[2] == 'S')
			return;
		usleep(1000);
	}
}

/* Stops the child as a debugger does; its registers can be read afterwards. */
static inline void child_stop(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 ||
	        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 || waitpid(pid, NULL, __WALL) != pid)
		abort();
}

#endif
