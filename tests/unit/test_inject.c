/* A thread that is stopped, and what it needs to go on by itself. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/internal.h"
#include "base/clock.h"

enum { AGAIN = 3 };

static pid_t child_that_waits(void)
{
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
		/* as the C library has it: poll(NULL, 0, -1) */
		__asm__ volatile("mov $7, %%eax\n\tsyscall" ::"D"(0), "S"(0), "d"(-1)
		                 : "rax", "rcx", "r11", "memory");
		_exit(1);
	}
	return child;
}

/* Stopped while it waits, which it may not yet do. */
static void stop_in_call(pid_t child, struct gm_inject_thread *thread)
{
	for (bool stopped = false;;) {
		assert_null(
		        gm_inject_thread_stop(child, child, gm_seconds() + 600, thread, &stopped));
		if (stopped && gm_inject_thread_waits_in(thread) >= 0)
			return;
		if (stopped)
			gm_inject_thread_release(thread);
	}
}

static void a_wait_that_was_interrupted_before_begins_again_as_that_call(void **state)
{
	(void)state;
	pid_t child = child_that_waits();
	struct gm_inject_thread *thread = aligned_alloc(64, (sizeof(*thread) + 63) / 64 * 64);
	assert_non_null(thread);
	for (int i = 0; i < AGAIN; i++) {
		stop_in_call(child, thread);
		struct user_regs_struct registers = thread->registers;
		gm_inject_restart(thread, &registers);
		assert_int_equal(registers.rax, SYS_poll);
		assert_int_equal(registers.rip, thread->registers.rip - 2);
		gm_inject_thread_release(thread);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	free(thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_wait_that_was_interrupted_before_begins_again_as_that_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
