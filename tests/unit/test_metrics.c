/* What a monitoring system is told of a recording: sums by category, library and communicator, and
 * names that would break the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ask/metrics.h"
#include "render/metrics.h"
#include "synthetic.h"

enum { MIB = 1 << 20, CUDA = 1 };

static void add(struct synthetic *log, uint8_t type, uint64_t address, uint64_t size,
        uint64_t allocated, const char *owner)
{
	const struct gm_event event = {.action = GM_ALLOC,
	        .device_type = type,
	        .thread = 1,
	        .time_ns = ++log->time,
	        .address = address,
	        .size = size,
	        .allocated = allocated,
	        .reserved = allocated,
	        .owner = owner ? gm_log_writer_string(log->writer, owner) : 0};
	gm_log_writer_event(log->writer, &event);
}

static void call(struct synthetic *log, uint32_t group, uint64_t bytes)
{
	const struct gm_log_collective one = {.time_ns = ++log->time,
	        .kind = GM_COLLECTIVE_ALL_REDUCE,
	        .group = group,
	        .ranks = 4,
	        .send_bytes = bytes,
	        .receive_bytes = 2 * bytes};
	gm_log_writer_collective(log->writer, &one);
}

/* The page; the caller frees it. */
static char *page(struct synthetic *log, bool open_metrics)
{
	struct gm_context context;
	struct gm_metrics metrics;
	char *text = NULL;
	size_t size = 0;
	assert_null(gm_log_writer_close(log->writer));
	gm_context_init(&context);
	assert_null(gm_context_set_log(&context, log->path));
	assert_null(gm_ask_metrics(&context, &metrics));
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	gm_render_metrics(&metrics, 4711, open_metrics, out);
	assert_int_equal(fclose(out), 0);
	gm_metrics_deinit(&metrics);
	gm_context_deinit(&context);
	unlink(log->path);
	return text;
}

static void has(const char *text, const char *line)
{
	const char *found = strstr(text, line);
	if (!found || (found != text && found[-1] != '\n') || found[strlen(line)] != '\n')
		fail_msg("no line %s in\n%s", line, text);
}

static void test_sums_are_the_allocators(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	/* 3 MiB were there before */
	add(&log, CUDA, 0x1000000, MIB, 4 * MIB, NULL);
	add(&log, CUDA, 0x2000000, 2 * MIB, 6 * MIB, NULL);
	char *text = page(&log, false);
	has(text, "gpumem_allocated_bytes{pid=\"4711\",device=\"0\"} 6291456");
	has(text, "gpumem_category_bytes{pid=\"4711\",device=\"0\",category=\"unknown\"} 6291456");
	has(text, "gpumem_category_bytes{pid=\"4711\",device=\"0\",category=\"gradient\"} 0");
	has(text, "# TYPE gpumem_events_total counter");
	has(text, "gpumem_events_total{pid=\"4711\"} 2");
	/* neither the allocated nor the reserved bytes add up */
	has(text, "gpumem_recording_gaps{pid=\"4711\"} 2");
	free(text);
}

static void test_libraries_and_communicators_have_their_sums(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	add(&log, GM_LOG_DEVICE_EXTERNAL, 0x1000000, MIB, UINT64_MAX, "libnccl.so.2");
	add(&log, GM_LOG_DEVICE_EXTERNAL, 0x2000000, 2 * MIB, UINT64_MAX, "libnccl.so.2");
	add(&log, GM_LOG_DEVICE_EXTERNAL, 0x3000000, 4 * MIB, UINT64_MAX, "libcublas.so.13");
	call(&log, 1, 100);
	call(&log, 1, 20);
	call(&log, 2, 7);
	char *text = page(&log, true);
	has(text,
	        "gpumem_library_bytes{pid=\"4711\",device=\"0\",library=\"libnccl.so.2\"} 3145728");
	has(text, "gpumem_library_bytes{pid=\"4711\",device=\"0\",library=\"libcublas.so.13\"} "
	          "4194304");
	has(text, "# TYPE gpumem_collective_calls counter");
	has(text, "gpumem_collective_calls_total{pid=\"4711\",communicator=\"1\",ranks=\"4\",kind="
	          "\"all_"
	          "reduce\"} 2");
	has(text, "gpumem_collective_sent_bytes_total{pid=\"4711\",communicator=\"1\",ranks=\"4\","
	          "kind="
	          "\"all_reduce\"} 120");
	has(text, "gpumem_collective_received_bytes_total{pid=\"4711\",communicator=\"2\",ranks="
	          "\"4\","
	          "kind=\"all_reduce\"} 14");
	has(text, "gpumem_recording_gaps{pid=\"4711\"} 0");
	has(text, "# EOF");
	free(text);
}

static void test_names_cannot_end_a_label_or_a_line(void **state)
{
	struct synthetic log;
	synthetic_begin(&log);
	add(&log, GM_LOG_DEVICE_EXTERNAL, 0x1000000, MIB, UINT64_MAX,
	        "a\"} 1\ngpumem_forged 2\x1b[2J\\\xff");
	char *text = page(&log, false);
	has(text, "gpumem_library_bytes{pid=\"4711\",device=\"0\",library=\"a\\\"} "
	          "1\\\\ngpumem_forged "
	          "2\\\\x1b[2J\\\\\\\\xff\"} 1048576");
	assert_null(strstr(text, "\ngpumem_forged"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sums_are_the_allocators),
	        cmocka_unit_test(test_libraries_and_communicators_have_their_sums),
	        cmocka_unit_test(test_names_cannot_end_a_label_or_a_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
