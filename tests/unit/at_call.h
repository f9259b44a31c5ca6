/* What happens if something changes while a process is at any of its system calls. */
#ifndef GM_TESTS_AT_CALL_H
#define GM_TESTS_AT_CALL_H

#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

/* Lets a child that stops itself when it may be traced run to its `calls`-th stop at a system call
 * (each call has two), or to its end; its status then. */
static inline int run_to_call(pid_t child, unsigned calls)
{
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	for (unsigned stops = 0; WIFSTOPPED(status) && stops < calls; stops++) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	return status;
}

/* Calls `change` there, and lets the child go on: it must end with status 0. False: it ended
 * before.
 */
static inline bool change_at_call(
        pid_t child, unsigned calls, void (*change)(void *context), void *context)
{
	int status = run_to_call(child, calls);
	bool stands = WIFSTOPPED(status);
	if (stands) {
		change(context);
		assert_int_equal(ptrace(PTRACE_DETACH, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return stands;
}

#endif
