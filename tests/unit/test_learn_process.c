/* Of which processes nothing is started to learn their PyTorch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "learn/learn.h"

enum { NOBODY = 65534 };

static void is_refused(int pid, const char *why)
{
	const struct gm_torch_builds builds = {.version = "2.99.0"};
	struct gm_learn_result result;
	struct gm_error *error =
	        gm_learn_of_process(pid, &builds, "/nowhere/torch/lib/libc10.so", &result);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, why));
	gm_error_destroy(error);
}

static void is_refused_with_users(uid_t real, uid_t effective, uid_t saved)
{
	int ready[2];
	char byte;
	if (geteuid() != 0)
		skip(); /* who is not root cannot make one */
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		if (setresuid(real, effective, saved) != 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	is_refused(pid, "is of another user (");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

static void no_python_of_another_users_process_is_started(void **state)
{
	is_refused_with_users(NOBODY, NOBODY, NOBODY);
}

/* As of a setuid program: its variables and arguments are those that its caller gave it. */
static void no_python_of_a_process_that_another_user_started_is_started(void **state)
{
	is_refused_with_users(NOBODY, 0, 0);
	is_refused_with_users(0, NOBODY, 0);
	is_refused_with_users(0, 0, NOBODY);
}

static void a_program_that_is_no_python_is_not_started(void **state)
{
	is_refused((int)getpid(), "runs a program that is not named like Python");
}

static void a_process_that_ended_is_named(void **state)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	is_refused(pid, "No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(no_python_of_another_users_process_is_started),
	        cmocka_unit_test(no_python_of_a_process_that_another_user_started_is_started),
	        cmocka_unit_test(a_program_that_is_no_python_is_not_started),
	        cmocka_unit_test(a_process_that_ended_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
