/* What the log costs where it is not as usual: after a write error, and with very many counters. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log/format.h"
#include "log/log.h"
#include "log/tables.h"

static char path[64];

static int make_path(void **state)
{
	snprintf(path, sizeof(path), "/tmp/gpumem-test-log-limits-XXXXXX");
	int fd = mkstemp(path);
	close(fd);
	return fd < 0;
}

static int remove_path(void **state)
{
	return unlink(path);
}

static struct gm_log_writer *create(void)
{
	struct gm_log_writer *writer = NULL;
	assert_null(gm_log_writer_create(path, NULL, &writer));
	return writer;
}

/* --- after a write error ---------------------------------------------------------------------- */

enum { FILE_LIMIT = 256 << 10, MANY_EVENTS = 3000000, MORE_THAN_A_FEW_CHUNKS = 8 << 20 };

static size_t allocated(void)
{
	struct mallinfo2 now = mallinfo2();
	return now.uordblks + now.hblkhd;
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void append(struct gm_log_writer *writer, unsigned i)
{
	char text[64];
	snprintf(text, sizeof(text), "a string that is in no other event: %u", i);
	gm_log_writer_string(writer, text);
	gm_log_writer_counter(writer, "a.counter", i);
	const struct gm_event event = {.action = GM_ALLOC,
	        .address = UINT64_C(0x7f0000000000) + UINT64_C(7919) * i * i,
	        .size = 512 + UINT64_C(31) * i,
	        .thread = i};
	gm_log_writer_event(writer, &event);
}

static void after_a_write_error_memory_is_bounded_and_the_error_comes(void **state)
{
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	struct gm_log_writer *writer = create();
	limit_files(FILE_LIMIT);
	unsigned i = 0;
	for (; i < MANY_EVENTS && !gm_log_writer_failed(writer); i++)
		append(writer, i);
	assert_true(i < MANY_EVENTS);
	size_t at_error = allocated();
	for (unsigned end = i + MANY_EVENTS; i < end; i++)
		append(writer, i);
	size_t at_end = allocated();
	limit_files(before.rlim_cur);
	struct gm_error *error = gm_log_writer_flush(writer);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "cannot write the log"));
	gm_error_destroy(error);
	assert_true(at_end < at_error + MORE_THAN_A_FEW_CHUNKS);
	error = gm_log_writer_close(writer);
	assert_non_null(error);
	gm_error_destroy(error);
	/* what was written before it can be read, although there is room again */
	struct gm_log *log;
	assert_null(gm_log_open(path, &log));
	assert_true(gm_log_event_count(log) > 0 && gm_log_event_count(log) < i - MANY_EVENTS);
	gm_log_close(log);
}

/* --- counters --------------------------------------------------------------------------------- */

enum { COUNTERS = 20000, COMPARED_FOR_ONE = 64 };

/* In the place of the C library's: its calls are counted. */
static uint64_t compared;

int strcmp(const char *a, const char *b)
{
	compared++;
	for (; *a && *a == *b; a++)
		b++;
	return (unsigned char)*a - (unsigned char)*b;
}

static void name_of(char name[32], unsigned i)
{
	snprintf(name, 32, "oom.%u.free", i * 7919 % COUNTERS);
}

static void a_counter_of_many_is_found_in_few_comparisons(void **state)
{
	struct gm_log_writer *writer = create();
	char name[32];
	uint64_t value;
	for (unsigned i = 0; i < COUNTERS; i++) {
		name_of(name, i);
		gm_log_writer_counter(writer, name, i);
	}
	assert_null(gm_log_writer_close(writer));
	struct gm_log *log;
	compared = 0;
	assert_null(gm_log_open(path, &log));
	for (unsigned i = 0; i < COUNTERS; i++) {
		name_of(name, i);
		assert_true(gm_log_counter(log, name, &value));
		assert_int_equal(value, i);
	}
	assert_false(gm_log_counter(log, "oom.free", &value));
	assert_false(gm_log_counter(log, "", &value));
	assert_true(compared > COUNTERS && compared < (uint64_t)COUNTERS * COMPARED_FOR_ONE);
	gm_log_close(log);
}

/* A chunk's payload in `bytes`; returns how long it is. */
static size_t put_counters(uint8_t *bytes, const uint32_t *names, unsigned count, uint64_t first)
{
	uint8_t *at = bytes;
	for (unsigned i = 0; i < count; i++) {
		at = gm_put_varint(at, names[i]);
		at = gm_put_varint(at, i);
		at = gm_put_varint(at, first + i);
	}
	return (size_t)(at - bytes);
}

static void read_chunk(
        struct gm_tables *tables, uint16_t type, const void *bytes, size_t size, unsigned count)
{
	const struct gm_chunk_header header = {
	        .type = type, .length = (uint32_t)size, .count = count};
	struct gm_cursor cursor = {bytes, (const uint8_t *)bytes + size, false};
	bool no_memory = false;
	const char *why = gm_tables_read(tables, &header, &cursor, &no_memory);
	if (why || no_memory)
		fail_msg("%s", why ? why : "no memory");
}

static uint64_t value_of(const struct gm_tables *tables, const char *name)
{
	uint64_t value;
	assert_true(gm_tables_counter(tables, name, &value));
	return value;
}

/* Two ids of one name, as only another writer's file has them. */
static void the_last_value_of_a_name_is_the_counters(void **state)
{
	static const char strings[] = "\1a\1b\1a";
	struct gm_tables tables = {0};
	uint8_t bytes[64];
	read_chunk(&tables, GM_CHUNK_STRINGS, strings, sizeof(strings) - 1, 3);
	size_t size = put_counters(bytes, (const uint32_t[]){3, 2, 1, 2}, 4, 10);
	read_chunk(&tables, GM_CHUNK_COUNTERS, bytes, size, 4);
	assert_true(gm_tables_sort(&tables));
	assert_int_equal(value_of(&tables, "a"), 12);
	assert_int_equal(value_of(&tables, "b"), 13);
	/* more is read later: what is not sorted yet is not found */
	size = put_counters(bytes, (const uint32_t[]){3}, 1, 20);
	read_chunk(&tables, GM_CHUNK_COUNTERS, bytes, size, 1);
	assert_int_equal(value_of(&tables, "a"), 12);
	assert_true(gm_tables_sort(&tables));
	assert_int_equal(value_of(&tables, "a"), 20);
	assert_int_equal(value_of(&tables, "b"), 13);
	assert_int_equal(tables.counters.count, 2);
	gm_tables_deinit(&tables);
}

/* A file may have a name of megabytes, and as many counters of it. */
static void a_name_is_compared_once_however_often_it_is_given(void **state)
{
	static uint8_t bytes[COUNTERS * 16];
	static uint32_t names[COUNTERS];
	struct gm_tables tables = {0};
	read_chunk(&tables, GM_CHUNK_STRINGS, "\1a\1a\1b", 6, 3);
	for (unsigned i = 0; i < COUNTERS; i++)
		names[i] = 1 + i % 3;
	size_t size = put_counters(bytes, names, COUNTERS, 0);
	read_chunk(&tables, GM_CHUNK_COUNTERS, bytes, size, COUNTERS);
	assert_int_equal(tables.counters.count, COUNTERS); /* reading searches for none */
	compared = 0;
	assert_true(gm_tables_sort(&tables));
	assert_true(compared > 0 && compared < COMPARED_FOR_ONE);
	gm_tables_deinit(&tables);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_path, remove_path)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(after_a_write_error_memory_is_bounded_and_the_error_comes),
	        TEST(a_counter_of_many_is_found_in_few_comparisons),
	        cmocka_unit_test(the_last_value_of_a_name_is_the_counters),
	        cmocka_unit_test(a_name_is_compared_once_however_often_it_is_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
