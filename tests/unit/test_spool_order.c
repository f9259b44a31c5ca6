/* The order of what threads recorded in the agent's file: at once, and while the file grows. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "log/log.h"
#include "spool/internal.h"
#include "spool_file.h"

static struct spool_extent extent;

/* Every record that the reader decodes (the linker's --wrap). */
bool __real_gm_spool_next(struct gm_spool_cursor *cursor, struct gm_spool_record *ret_record);
bool __wrap_gm_spool_next(struct gm_spool_cursor *cursor, struct gm_spool_record *ret_record);
static uint64_t decoded;

bool __wrap_gm_spool_next(struct gm_spool_cursor *cursor, struct gm_spool_record *ret_record)
{
	decoded++;
	return __real_gm_spool_next(cursor, ret_record);
}

static void put_call(struct spool_extent *to, uint64_t time_ns)
{
	uint8_t payload[128], *at = gm_put_varint(payload, GM_COLLECTIVE_ALL_REDUCE);
	at = gm_put_varint(at, time_ns);
	for (int i = 0; i < 11; i++)
		at = gm_put_varint(at, i < 2 ? 0 : 1);
	spool_put(to, GM_AGENT_COLLECTIVE, payload, (size_t)(at - payload));
}

static struct gm_log *read_at_once(const struct spool_file *file)
{
	struct gm_log *log;
	struct gm_error *error = gm_spool_import(file->path, &log);
	if (error)
		fail_msg("%s", error->message);
	return log;
}

static struct gm_log *read_live(const struct spool_file *file, struct gm_spool_live **ret_live)
{
	struct gm_log *log;
	struct gm_error *error = gm_spool_live_open(file->path, ret_live, &log);
	if (error)
		fail_msg("%s", error->message);
	assert_non_null(*ret_live);
	return log;
}

/* The sizes of a log's allocations, which are the numbers that the agent gave them. */
static const char *numbers_of(const struct gm_log *log)
{
	static char text[1024];
	size_t used = 0;
	text[0] = 0;
	for (uint64_t i = 0; i < gm_log_event_count(log); i++) {
		struct gm_event event;
		gm_log_event(log, i, &event);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", used ? " " : "",
		        (unsigned)event.size);
	}
	return text;
}

/* "+name before 3" of a range that begins before the log's event 3, "- before 4" of one that ends.
 */
static const char *ranges_of(const struct gm_log *log)
{
	static char text[1024];
	size_t used = 0;
	text[0] = 0;
	for (size_t i = 0; i < gm_log_mark_count(log); i++) {
		struct gm_log_mark mark;
		gm_log_mark(log, i, &mark);
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s before %u",
		        used ? ", " : "", mark.kind == GM_MARK_PUSH ? "+" : "-",
		        mark.kind == GM_MARK_PUSH ? gm_log_string(log, mark.name) : "",
		        (unsigned)mark.event);
	}
	return text;
}

/* Both readings say the same. */
static void expect(
        const struct spool_file *file, size_t calls, const char *numbers, const char *ranges)
{
	struct gm_spool_live *live;
	for (int reading = 0; reading < 2; reading++) {
		struct gm_log *log = reading ? read_live(file, &live) : read_at_once(file);
		assert_int_equal(gm_log_collective_count(log), calls);
		assert_string_equal(numbers_of(log), numbers);
		assert_string_equal(ranges_of(log), ranges);
		gm_log_close(log);
		if (reading)
			gm_spool_live_close(live);
	}
}

static void an_extent_without_events_is_read(void **state)
{
	enum { CALLS = 500 };
	struct spool_file file;
	spool_begin(&file, GM_AGENT_RUNS);
	for (uint32_t i = 0; i < 4; i++) {
		spool_extent_begin(&file, &extent, 1, i ? 2 : 1);
		if (i == 0)
			spool_put_event(&extent, 1);
		for (int call = 0; call < CALLS; call++)
			put_call(&extent, 1000 + i * CALLS + (uint64_t)call);
		if (i == 3)
			spool_put_event(&extent, 2);
		spool_extent_commit(&file, &extent);
	}
	expect(&file, 4 * CALLS, "1 2", "");
	spool_end(&file);
}

static void a_range_of_an_extent_without_events_begins_in_its_place(void **state)
{
	struct spool_file file;
	spool_begin(&file, GM_AGENT_RUNS);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "outer");
	spool_put_event(&extent, 1);
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 1, 2);
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "inner");
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 2, 2);
	spool_put_event(&extent, 2);
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 1, 3);
	spool_put_event(&extent, 3);
	spool_put_mark(&extent, GM_AGENT_MARK_POP, "");
	spool_put_event(&extent, 4);
	spool_put_mark(&extent, GM_AGENT_MARK_POP, "");
	spool_extent_commit(&file, &extent);
	expect(&file, 0, "1 2 3 4", "+outer before 0, +inner before 2, - before 3, - before 4");
	spool_end(&file);
}

/* Extents of one moment: the thread filled the first ones without an event. */
static void extents_of_one_moment_are_read_in_their_order(void **state)
{
	struct spool_file file;
	spool_begin(&file, GM_AGENT_RUNS);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "a");
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "b");
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_mark(&extent, GM_AGENT_MARK_POP, "");
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "c");
	spool_put_event(&extent, 1);
	spool_extent_commit(&file, &extent);
	expect(&file, 0, "1", "+a before 0, +c before 0");
	spool_end(&file);
}

static void a_range_ends_right_after_its_last_event_though_another_extent_says_so(void **state)
{
	struct spool_file file;
	spool_begin(&file, GM_AGENT_RUNS);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "a");
	spool_put_event(&extent, 1);
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 2, 1);
	spool_put_event(&extent, 2);
	spool_put_event(&extent, 3);
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &extent, 1, 2);
	spool_put_mark(&extent, GM_AGENT_MARK_POP, "");
	spool_put_event(&extent, 4);
	spool_extent_commit(&file, &extent);
	expect(&file, 0, "1 2 3 4", "+a before 0, - before 1");
	spool_end(&file);
}

/* The second thread continues in the first one's extent, after it filled its own. */
static void a_thread_that_continues_in_an_extent_does_so_after_what_it_recorded_before(void **state)
{
	for (int with_event = 0; with_event < 2; with_event++) {
		struct spool_file file;
		uint8_t thread[] = {2};
		spool_begin(&file, GM_AGENT_RUNS);
		spool_extent_begin(&file, &extent, 1, 1);
		if (with_event)
			spool_put_event(&extent, 1);
		else
			put_call(&extent, 1000);
		spool_put(&extent, GM_AGENT_THREAD, thread, sizeof(thread));
		spool_put_mark(&extent, GM_AGENT_MARK_PUSH, "later");
		spool_put_event(&extent, 4);
		spool_extent_commit(&file, &extent);
		spool_extent_begin(&file, &extent, 2, 1);
		for (uint64_t sequence = with_event ? 2 : 1; sequence < 4; sequence++)
			spool_put_event(&extent, sequence);
		spool_extent_commit(&file, &extent);
		expect(&file, !with_event, "1 2 3 4", "+later before 3");
		spool_end(&file);
	}
}

/* ---- a file that grows ---- */

static bool reads_on(struct gm_spool_live *live, struct gm_log *log)
{
	bool ended;
	struct gm_error *error = gm_spool_live_update(live, &ended);
	if (error)
		fail_msg("%s", error->message);
	if (!ended)
		assert_null(gm_log_refresh(log));
	return !ended;
}

static void a_late_event_makes_the_reader_begin_again(void **state)
{
	static struct spool_extent late;
	struct spool_file file;
	struct gm_spool_live *live;
	spool_begin(&file, GM_AGENT_RUNS);
	spool_extent_begin(&file, &extent, 1, 1);
	for (uint64_t sequence = 1; sequence <= 5; sequence++)
		if (sequence != 3)
			spool_put_event(&extent, sequence);
	spool_extent_commit(&file, &extent);
	spool_extent_begin(&file, &late, 2, 1);
	spool_extent_commit(&file, &late);
	struct gm_log *log = read_live(&file, &live);
	assert_string_equal(numbers_of(log), "1 2"); /* number 3 is waited for, once */
	assert_true(reads_on(live, log));
	assert_string_equal(numbers_of(log), "1 2 4 5");
	spool_put_event(&extent, 6);
	spool_extent_commit(&file, &extent);
	spool_put_event(&late, 3);
	spool_extent_commit(&file, &late);
	assert_false(reads_on(live, log));
	gm_log_close(log);
	gm_spool_live_close(live);
	expect(&file, 0, "1 2 3 4 5 6", "");
	spool_end(&file);
}

/* What is said of missing events; "": nothing. */
static const char *missing_in(const struct gm_log *log)
{
	for (size_t i = 0; i < gm_log_gap_count(log); i++)
		if (strstr(gm_log_gap(log, i), "missing in between"))
			return gm_log_gap(log, i);
	return "";
}

static void expect_missing(enum gm_agent_end state, uint64_t count, const char *text)
{
	struct spool_file file;
	spool_begin(&file, state);
	spool_extent_begin(&file, &extent, 1, 1);
	spool_put_event(&extent, 1);
	spool_put_event(&extent, 2 + count);
	spool_extent_commit(&file, &extent);
	struct gm_log *log = read_at_once(&file);
	assert_string_equal(missing_in(log), text);
	gm_log_close(log);
	spool_end(&file);
}

static void missing_events_were_being_written_only_if_there_were_threads_that_could(void **state)
{
	expect_missing(GM_AGENT_STOPPED, 0, "");
	expect_missing(GM_AGENT_STOPPED, 1,
	        "1 event is missing in between: threads had not finished writing when the "
	        "recording ended");
	expect_missing(GM_AGENT_RUNS, 1,
	        "1 event is missing in between: threads had not finished writing when the file was "
	        "read");
	expect_missing(
	        GM_AGENT_STOPPED, 2, "2 events are missing in between: the file lacks the records");
}

/* Of a damaged file: numbers ascend within an extent. */
static void an_event_out_of_order_leaves_no_number_missing(void **state)
{
	static const uint64_t numbers[] = {1, 2, 3, 4, 5, 2, 6};
	struct spool_file file;
	spool_begin(&file, GM_AGENT_STOPPED);
	spool_extent_begin(&file, &extent, 1, 1);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		spool_put_event(&extent, numbers[i]);
	spool_extent_commit(&file, &extent);
	struct gm_log *log = read_at_once(&file);
	assert_string_equal(missing_in(log), "");
	gm_log_close(log);
	spool_end(&file);
}

/* Threads that continue in an extent, with an event after so many of them; 0: with none. */
static void put_threads(struct spool_file *file, uint32_t threads, uint32_t event_after)
{
	spool_extent_begin(file, &extent, 1, 1);
	for (uint32_t i = 1; i <= threads; i++) {
		uint8_t payload[16];
		spool_put(&extent, GM_AGENT_THREAD, payload,
		        (size_t)(gm_put_varint(payload, 1 + i % 7) - payload));
		if (event_after && i % event_after == 0)
			spool_put_event(&extent, i / event_after);
	}
	spool_extent_commit(file, &extent);
}

static void threads_that_continue_in_an_extent_are_read_in_linear_time(void **state)
{
	enum { THREADS = 8000, TIMES_MAX = 8 };
	const uint32_t event_after[] = {0, THREADS, THREADS - 1, THREADS / 2, 100, 1};
	for (size_t i = 0; i < sizeof(event_after) / sizeof(*event_after); i++)
		for (int live = 0; live < 2; live++) {
			struct spool_file file;
			struct gm_spool_live *reader = NULL;
			uint32_t events = event_after[i] ? THREADS / event_after[i] : 0;
			spool_begin(&file, GM_AGENT_RUNS);
			put_threads(&file, THREADS, event_after[i]);
			decoded = 0;
			struct gm_log *log = live ? read_live(&file, &reader) : read_at_once(&file);
			assert_true(decoded >= THREADS);
			assert_true(decoded <= (uint64_t)TIMES_MAX * (THREADS + events));
			assert_int_equal(gm_log_event_count(log), events);
			gm_log_close(log);
			gm_spool_live_close(reader);
			spool_end(&file);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(an_extent_without_events_is_read),
	        cmocka_unit_test(a_range_of_an_extent_without_events_begins_in_its_place),
	        cmocka_unit_test(extents_of_one_moment_are_read_in_their_order),
	        cmocka_unit_test(
	                a_range_ends_right_after_its_last_event_though_another_extent_says_so),
	        cmocka_unit_test(
	                a_thread_that_continues_in_an_extent_does_so_after_what_it_recorded_before),
	        cmocka_unit_test(a_late_event_makes_the_reader_begin_again),
	        cmocka_unit_test(
	                missing_events_were_being_written_only_if_there_were_threads_that_could),
	        cmocka_unit_test(an_event_out_of_order_leaves_no_number_missing),
	        cmocka_unit_test(threads_that_continue_in_an_extent_are_read_in_linear_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
