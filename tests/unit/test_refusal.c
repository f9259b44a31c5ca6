/* Why a process may not be read, and what helps: each case of ptrace(2)'s "Ptrace access mode
 * checking". */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/refusal.h"

/* Ours, but for one thing: (real, effective, saved) */
#define OURS(...) .pid = 7, .own = 1000, .known = true, USERS(__VA_ARGS__)
#define USERS(a, b, c) .real = a, .effective = b, .saved = c
#define ROOT .pid = 7, .known = true, USERS(0, 0, 0)

static void each_reason_has_what_helps(void **state)
{
	static const struct {
		struct gm_refusal refusal;
		const char *reason, *help, *not_said;
	} cases[] = {
	        {{OURS(1000, 5, 1000), .scope = '1'}, "it belongs to user 5, and you are user 1000",
	                "as the same user or as root", "scope"},
	        {{OURS(0, 1000, 1000), .scope = '0'}, "rights of user 0", "run as root",
	                "same user"},
	        {{OURS(1000, 1000, 0), .scope = '2'}, "rights of user 0", "run as root",
	                "same user"},
	        {{OURS(1000, 1000, 1000), .not_dumpable = true, .scope = '1'}, "not dumpable",
	                "run as root", "same user"},
	        {{OURS(1000, 1000, 1000), .scope = '0'}, "a container", "SYS_PTRACE", "same user"},
	        {{OURS(1000, 1000, 1000), .scope = '1'}, "ptrace_scope is 1",
	                "run as root, or `sysctl kernel.yama.ptrace_scope=0`, or start the program "
	                "with `gpumem run`",
	                "gdb -p"},
	        {{OURS(1000, 1000, 1000), .scope = '2'}, "ptrace_scope is 2",
	                "run as root, or `sysctl kernel.yama.ptrace_scope=0`", "gpumem gdb"},
	        {{OURS(1000, 1000, 1000), .scope = '2', .may_trace = true}, "a container",
	                "SYS_PTRACE", "scope"},
	        {{OURS(1000, 1000, 1000), .scope = '3'}, "ptrace_scope is 3", "gpumem run",
	                "as root:"},
	        {{ROOT, .scope = '1', .may_trace = true}, "a container", "SYS_PTRACE", "scope"},
	        {{ROOT, .scope = '1'}, "ptrace_scope is 1", "--cap-add=SYS_PTRACE", "as root"},
	        {{ROOT, .scope = '2'}, "ptrace_scope is 2", "--cap-add=SYS_PTRACE", "run as root"},
	        {{.pid = 7, .known = true, USERS(5, 5, 5), .scope = '1'}, "a container",
	                "SYS_PTRACE", "scope"},
	        {{ROOT, .scope = '3'}, "ptrace_scope is 3", "gpumem run", "run as root"},
	        {{ROOT, .scope = '0', .in_user_namespace = true}, "a user namespace",
	                "ask from outside", "as root"},
	        {{OURS(1000, 5, 1000), .scope = '0', .in_user_namespace = true},
	                "it belongs to user 5", "as root", "namespace"},
	        {{.pid = 7, .own = 1000, .scope = '0'}, "a container", "run as root", "same user"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[GM_REFUSAL_TEXT];
		gm_refusal_text(&cases[i].refusal, text);
		print_message("%s\n", text);
		assert_non_null(strstr(text, cases[i].reason));
		assert_non_null(strstr(text, cases[i].help));
		assert_null(strstr(text, cases[i].not_said));
		assert_true(strlen(text) < GM_REFUSAL_TEXT - 1); /* whole */
	}
}

static void longest_numbers_leave_it_whole(void **state)
{
	char text[GM_REFUSAL_TEXT];
	struct gm_refusal refusal = {.pid = INT32_MAX, .own = UINT32_MAX, .scope = '1'};
	gm_refusal_text(&refusal, text);
	refusal = (struct gm_refusal){
	        .pid = INT32_MAX, .own = UINT32_MAX, .known = true, .effective = UINT32_MAX - 1};
	assert_non_null(strstr(gm_refusal_text(&refusal, text), "or as root"));
}

static void what_is_not_dumpable_is_reported(void **state)
{
	if (geteuid() != 0)
		skip(); /* who has no other user's rights finds its own files either way */
	struct gm_refusal refusal;
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		char byte = 0;
		if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
			_exit(1);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		sleep(600);
		_exit(0);
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	gm_refusal_read(child, &refusal);
	assert_true(refusal.known);
	assert_int_equal(refusal.effective, 65534);
	assert_false(refusal.not_dumpable);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	child = fork();
	if (child == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0 ||
		        write(ready[1], &byte, 1) != 1)
			_exit(1);
		sleep(600);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	gm_refusal_read(child, &refusal);
	assert_true(refusal.not_dumpable);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_reason_has_what_helps),
	        cmocka_unit_test(longest_numbers_leave_it_whole),
	        cmocka_unit_test(what_is_not_dumpable_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
