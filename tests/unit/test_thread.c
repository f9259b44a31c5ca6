/* base/thread.h: threads that leave the program's signals to the program. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/team.h"
#include "base/thread.h"

static _Atomic(pid_t) taken_by;
static atomic_bool leave;

static void take(int number)
{
	(void)number;
	taken_by = gettid();
}

static void *note_mask(void *context)
{
	pthread_sigmask(SIG_BLOCK, NULL, context);
	return NULL;
}

static void test_signals_of_the_program_are_blocked_and_those_of_the_thread_itself_are_not(
        void **state)
{
	(void)state;
	sigset_t before, after, mask;
	pthread_t thread;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	assert_int_equal(gm_thread_create(&thread, note_mask, &mask), 0);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	static const int others[] = {SIGCHLD, SIGINT, SIGTERM, SIGALRM, SIGWINCH, SIGUSR1, SIGIO};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_true(sigismember(&mask, others[i]));
	assert_false(sigismember(&mask, SIGSEGV));
	assert_false(sigismember(&mask, SIGBUS));
	for (int number = 1; number < SIGRTMIN; number++)
		assert_int_equal(sigismember(&before, number), sigismember(&after, number));
}

static void work(void *context, size_t number)
{
	(void)context;
	(void)number;
	while (!leave)
		usleep(100);
}

/* As gdb does: SIGCHLD is blocked while it is not waited for. */
static void *send_a_child(void *context)
{
	(void)context;
	usleep(20000);
	kill(getpid(), SIGCHLD);
	usleep(20000);
	leave = true;
	return NULL;
}

static void test_a_signal_that_the_caller_blocks_is_not_taken_by_a_team(void **state)
{
	(void)state;
	struct sigaction action = {.sa_handler = take}, before;
	sigset_t child, mask;
	pthread_t sender;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigaction(SIGCHLD, &action, &before);
	pthread_sigmask(SIG_BLOCK, &child, &mask);
	assert_int_equal(gm_thread_create(&sender, send_a_child, NULL), 0);
	gm_team_run(4, work, NULL);
	pthread_join(sender, NULL);
	assert_int_equal(taken_by, 0);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	assert_int_equal(taken_by, getpid());
	sigaction(SIGCHLD, &before, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(
	                test_signals_of_the_program_are_blocked_and_those_of_the_thread_itself_are_not),
	        cmocka_unit_test(test_a_signal_that_the_caller_blocks_is_not_taken_by_a_team),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
