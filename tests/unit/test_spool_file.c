/* The agent's file as a whole: whether its process runs, and files that are not what they say. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "spool/spool.h"
#include "spool_file.h"

/* ---- its process ---- */

static bool runs(uint32_t pid, uint64_t start_ns)
{
	struct spool_file file;
	struct gm_spool_look look;
	spool_begin(&file, GM_AGENT_RUNS);
	struct gm_agent_file_header header = spool_header();
	header.pid = pid;
	header.start_ns = start_ns;
	spool_write(&file, &header, sizeof(header), 0);
	assert_null(gm_spool_look(file.path, &look));
	spool_end(&file);
	return look.runs;
}

static void a_process_that_began_after_the_recording_is_another_one(void **state)
{
	const uint64_t now = spool_header().start_ns, hour = UINT64_C(3600000000000);
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	uint32_t pid = (uint32_t)child;
	assert_true(runs(pid, now));
	assert_true(runs(pid, now + hour)); /* it may begin to record at any time */
	assert_false(runs(pid, now - hour));
	assert_false(runs(pid, 0));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_false(runs(pid, now));
}

static void a_thread_of_the_kernel_records_nothing(void **state)
{
	char line[64] = "";
	_cleanup_fclose_ FILE *file = fopen("/proc/2/comm", "r");
	if (!file || !fgets(line, sizeof(line), file) || strcmp(line, "kthreadd\n") != 0)
		skip(); /* a container, whose process 2 is another one */
	assert_false(runs(2, spool_header().start_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_process_that_began_after_the_recording_is_another_one),
	        cmocka_unit_test(a_thread_of_the_kernel_records_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
