/* The breakpoint recorder on a process without Python: where it would stop, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "child.h"
#include "gpumem.h"
#include "log/log.h"
#include "record/record.h"

static void prepare_nothing(uint64_t *words)
{
	words[0] = 1;
}

static char log_path[] = "/tmp/gpumem-test-record-XXXXXX";

static struct gm_recorder_options options(void)
{
	return (struct gm_recorder_options){.cuda = true,
	        .cpu = true,
	        .python_stacks = true,
	        .native_stacks = true,
	        .log_path = log_path,
	        .source = "child"};
}

static void test_without_torch_only_libraries_and_exit_are_watched(void **state)
{
	struct child child = child_start(prepare_nothing);
	struct gm_recorder_options wanted = options();
	struct gm_recorder *recorder;
	assert_null(gm_recorder_create(&wanted, child.pid, &recorder));
	const struct gm_probe_site *sites;
	size_t count;
	assert_null(gm_recorder_probes(recorder, &sites, &count));
	assert_int_equal(count, 2);
	for (size_t i = 0; i < count; i++) {
		assert_true(
		        sites[i].probe == GM_PROBE_LIBRARIES || sites[i].probe == GM_PROBE_EXIT);
		assert_true(sites[i].address != 0);
	}
	int verdict = -1;
	assert_null(gm_recorder_hit(recorder, 0x1234, child.pid, NULL, &verdict));
	assert_int_equal(verdict, GM_CONTINUE);
	assert_null(gm_recorder_close(recorder));
	child_end(&child);
}

static void test_log_of_a_process_that_is_gone_is_closed_and_readable(void **state)
{
	struct child child = child_start(prepare_nothing);
	struct gm_recorder_options wanted = options();
	struct gm_recorder *recorder;
	assert_null(gm_recorder_create(&wanted, child.pid, &recorder));
	child_end(&child);
	assert_null(gm_recorder_close(recorder));
	struct gm_log *log;
	assert_null(gm_log_open(log_path, &log));
	assert_int_equal(gm_log_event_count(log), 0);
	assert_string_equal(gm_log_source(log), "child");
	assert_true(gm_log_module_count(log) > 0);
	gm_log_close(log);
}

static void test_no_such_process_is_refused(void **state)
{
	struct child child = child_start(prepare_nothing);
	child_end(&child);
	struct gm_recorder_options wanted = options();
	struct gm_recorder *recorder = NULL;
	struct gm_error *error = gm_recorder_create(&wanted, child.pid, &recorder);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_null(recorder);
	gm_error_destroy(error);
}

static void test_unknown_device_is_refused_by_name(void **state)
{
	gpumem_recorder *recorder = NULL;
	char *message = NULL;
	int status =
	        gpumem_recorder_create(getpid(), "cuda,tpu", log_path, "x", &recorder, &message);
	assert_int_equal(status, GM_USAGE);
	assert_string_equal(
	        message, "--devices cuda,tpu: no such device 'tpu': use cuda, cpu or cuda,cpu");
	gpumem_free(message);
}

static void test_summary_of_nothing_is_no_events(void **state)
{
	struct child child = child_start(prepare_nothing);
	gpumem_recorder *recorder = NULL;
	char *message = NULL;
	assert_int_equal(
	        gpumem_recorder_create(child.pid, "cuda", log_path, "x", &recorder, &message), 0);
	char *summary = gpumem_recorder_summary(recorder);
	assert_string_equal(summary, "0 events: PyTorch was not loaded");
	gpumem_free(summary);
	assert_int_equal(gpumem_recorder_close(recorder, &message), 0);
	child_end(&child);
}

int main(void)
{
	close(mkstemp(log_path));
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_without_torch_only_libraries_and_exit_are_watched),
	        cmocka_unit_test(test_log_of_a_process_that_is_gone_is_closed_and_readable),
	        cmocka_unit_test(test_no_such_process_is_refused),
	        cmocka_unit_test(test_unknown_device_is_refused_by_name),
	        cmocka_unit_test(test_summary_of_nothing_is_no_events),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(log_path);
	return failed;
}
