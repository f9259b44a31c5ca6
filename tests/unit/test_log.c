#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "log/format.h"
#include "log/intern.h"
#include "log/log.h"

static char path[64];
static bool packed;

static int make_path(void **state)
{
	packed = false;
	/* in memory if possible: it is written thousands of times, and each time would wait for a
	 * disk */
	snprintf(path, sizeof(path), "%s/gpumem-test-log-XXXXXX",
	        access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	int fd = mkstemp(path);
	close(fd);
	return fd < 0;
}

static int make_packed_path(void **state)
{
	int failed = make_path(state);
	packed = true;
	return failed;
}

static int remove_path(void **state)
{
	return unlink(path);
}

static void ok(struct gm_error *error)
{
	if (error)
		fail_msg("%s", error->message);
}

static struct gm_log_writer *create(void)
{
	struct gm_log_writer *writer = NULL;
	const struct gm_log_writer_options options = {
	        .source = "python3 train.py", .pid = 4711, .packed = packed};
	ok(gm_log_writer_create(path, &options, &writer));
	return writer;
}

static struct gm_event event_of(unsigned i)
{
	return (struct gm_event){
	        .action = (uint8_t)(i % 2 ? GM_FREE_REQUESTED : GM_ALLOC),
	        .device_type = i % 7 == 0 ? 0 : 1,
	        .device = (int16_t)(i % 7 == 0 ? -1 : (int)(i % 3)),
	        .flags = i % 11 == 0 ? GM_EVENT_BORROWED : 0,
	        .thread = 100 + i % 2,
	        .time_ns = UINT64_C(1700000000000000000) + i * 1000 - (i % 5) * 3000,
	        .address = UINT64_C(0x7f0000000000) + (uint64_t)(i * 7919 % 1000) * 512,
	        .size = i % 13 == 0 ? UINT64_MAX : 512 * (i % 100 + 1),
	        .requested = i % 4 ? 500 * (i % 100 + 1) : 0,
	        .stream = i % 9 == 0 ? UINT64_C(0xfffffffffffffff0) : 0,
	        .allocated = i % 17 == 0 ? UINT64_MAX : i * 512,
	        .reserved = i % 19 == 0 ? 0 : 1 << 21,
	        .python_stack = i % 3,
	        .native_stack = i % 2,
	        .evidence = i % 23 == 0,
	};
}

/* A log with a bit of everything and `count` events. */
/* Two equal calls are recorded as two. */
static struct gm_log_collective collective_of(unsigned i)
{
	return (struct gm_log_collective){.time_ns = i ? 1700000000000000001u : 0,
	        .thread = 4712,
	        .count = i ? 1u << 20 : 0,
	        .send = i ? 0x7f0000000200 : 0,
	        .receive = i ? UINT64_MAX : 0,
	        .send_bytes = i ? 1u << 21 : 0,
	        .receive_bytes = i ? UINT64_MAX : 0,
	        .kind = i ? GM_COLLECTIVE_RECEIVE : GM_COLLECTIVE_ALL_REDUCE,
	        .python_stack = i ? 1 : 0,
	        .group = i ? 3 : 0,
	        .ranks = i ? 1024 : 0,
	        .rank = i ? 1023 : GM_LOG_NO_RANK,
	        .peer = i ? 0 : GM_LOG_NO_RANK,
	        .dtype = i ? 15 : GM_LOG_NO_DTYPE,
	        .device = i ? 7 : -1,
	        .borrowed = i != 0};
}

static void write_rich(unsigned count)
{
	struct gm_log_writer *writer = create();
	uint32_t file = gm_log_writer_string(writer, "train.py");
	uint32_t name = gm_log_writer_string(writer, "train");
	const struct gm_log_loop loops[] = {{10, 90, 3, 9}, {20, 60, 5, 7}};
	uint32_t code = gm_log_writer_code(writer, &(struct gm_log_code){file, name, 1, 2, loops});
	uint32_t output = gm_log_writer_string(writer, "output");
	uint32_t inner =
	        gm_log_writer_frame(writer, &(struct gm_log_frame){code, 24, 6, 1, output});
	uint32_t outer = gm_log_writer_frame(writer, &(struct gm_log_frame){code, 12, 4, 13, 0});
	uint32_t stack = gm_log_writer_python_stack(writer, (const uint32_t[]){inner, outer}, 2);
	assert_int_equal(stack, 1);
	assert_int_equal(gm_log_writer_python_stack(writer, &outer, 1), 2);
	uint32_t module = gm_log_writer_module(
	        writer, &(struct gm_log_module){gm_log_writer_string(writer, "/usr/lib/libc10.so"),
	                        0x1000, 0x9000, 0x1000, {1, 2, 3}, 3});
	assert_int_equal(module, 1);
	const uint64_t addresses[] = {0x1234, 0x8000, 0x1500, UINT64_MAX};
	assert_int_equal(gm_log_writer_native_stack(writer, addresses, 4), 1);
	assert_int_equal(
	        gm_log_writer_evidence(writer,
	                &(struct gm_log_evidence){GM_EVIDENCE_DYING_FRAME, code, 7, output}),
	        1);
	for (unsigned i = 0; i < count; i++) {
		const struct gm_event event = event_of(i);
		assert_int_equal(gm_log_writer_event(writer, &event), i);
	}
	for (unsigned i = 0; i < 3; i++) {
		const struct gm_log_collective call = collective_of(i < 2 ? i : 1);
		gm_log_writer_collective(writer, &call);
	}
	gm_log_writer_symbol(writer, 0x1234, name, file, 12);
	gm_log_writer_gap(writer, "3 events lost: the disk was slow");
	gm_log_writer_counter(writer, "sim.kernels_not_computed", 5);
	gm_log_writer_counter(writer, "sim.kernels_not_computed", 7);
	gm_log_writer_counter(writer, "sim.kernels_not_computed", 5);
	ok(gm_log_writer_close(writer));
}

static struct gm_log *open_log(void)
{
	struct gm_log *log = NULL;
	ok(gm_log_open(path, &log));
	return log;
}

static void same_event(const struct gm_event *a, const struct gm_event *b)
{
	assert_int_equal(a->action, b->action);
	assert_int_equal(a->device_type, b->device_type);
	assert_int_equal(a->device, b->device);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->address, b->address);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->requested, b->requested);
	assert_int_equal(a->stream, b->stream);
	assert_int_equal(a->allocated, b->allocated);
	assert_int_equal(a->reserved, b->reserved);
	assert_int_equal(a->python_stack, b->python_stack);
	assert_int_equal(a->native_stack, b->native_stack);
	assert_int_equal(a->evidence, b->evidence);
}

static void same_collectives(const struct gm_log *log)
{
	assert_int_equal(gm_log_collective_count(log), 3);
	for (unsigned i = 0; i < 3; i++) {
		struct gm_log_collective got, want = collective_of(i < 2 ? i : 1);
		gm_log_collective(log, i, &got);
		assert_int_equal(got.time_ns, want.time_ns);
		assert_int_equal(got.thread, want.thread);
		assert_int_equal(got.count, want.count);
		assert_int_equal(got.send, want.send);
		assert_int_equal(got.receive, want.receive);
		assert_int_equal(got.send_bytes, want.send_bytes);
		assert_int_equal(got.receive_bytes, want.receive_bytes);
		assert_int_equal(got.kind, want.kind);
		assert_int_equal(got.python_stack, want.python_stack);
		assert_int_equal(got.group, want.group);
		assert_int_equal(got.ranks, want.ranks);
		assert_int_equal(got.rank, want.rank);
		assert_int_equal(got.peer, want.peer);
		assert_int_equal(got.dtype, want.dtype);
		assert_int_equal(got.device, want.device);
		assert_int_equal(got.borrowed, want.borrowed);
	}
}

static void what_was_written_is_read_back(void **state)
{
	enum { COUNT = 3 * GM_CHUNK_EVENTS_MAX + 17 };
	write_rich(COUNT);
	struct gm_log *log = open_log();
	assert_string_equal(gm_log_source(log), "python3 train.py");
	assert_int_equal(gm_log_pid(log), 4711);
	assert_false(gm_log_truncated(log, NULL));
	assert_true(gm_log_closed(log));
	assert_int_equal(gm_log_event_count(log), COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		struct gm_event got, want = event_of(i);
		gm_log_event(log, i, &got);
		same_event(&got, &want);
	}
	/* backwards too, against the order of the file */
	for (unsigned i = COUNT; i-- > 0; i = i > 1000 ? i - 1000 : i) {
		struct gm_event got, want = event_of(i);
		gm_log_event(log, i, &got);
		same_event(&got, &want);
	}

	size_t count;
	const uint32_t *stack = gm_log_python_stack(log, 1, &count);
	assert_int_equal(count, 2);
	struct gm_log_frame frame;
	assert_true(gm_log_frame(log, stack[0], &frame));
	assert_int_equal(frame.line, 6);
	assert_string_equal(gm_log_string(log, frame.op_name), "output");
	struct gm_log_code code;
	assert_true(gm_log_code(log, frame.code, &code));
	assert_string_equal(gm_log_string(log, code.file), "train.py");
	assert_int_equal(code.loop_count, 2);
	assert_int_equal(code.loops[1].end, 60);
	const uint64_t *addresses = gm_log_native_stack(log, 1, &count);
	assert_int_equal(count, 4);
	assert_int_equal(addresses[2], 0x1500);
	assert_int_equal(addresses[3], UINT64_MAX);
	struct gm_log_evidence evidence;
	assert_true(gm_log_evidence(log, 1, &evidence));
	assert_int_equal(evidence.line, 7);
	uint32_t function, file, line;
	assert_true(gm_log_symbol(log, 0x1234, &function, &file, &line));
	assert_int_equal(line, 12);
	assert_false(gm_log_symbol(log, 0x1235, &function, &file, &line));
	assert_int_equal(gm_log_module_at(log, 0x1000), 1);
	assert_int_equal(gm_log_module_at(log, 0x9000), 0);
	assert_int_equal(gm_log_gap_count(log), 1);
	assert_string_equal(gm_log_gap(log, 0), "3 events lost: the disk was slow");
	uint64_t value;
	assert_true(gm_log_counter(log, "sim.kernels_not_computed", &value));
	assert_int_equal(value, 5);
	assert_false(gm_log_counter(log, "nope", &value));
	same_collectives(log);
	gm_log_close(log);
}

static void same_content_gets_the_same_id(void **state)
{
	struct gm_log_writer *writer = create();
	char text[32];
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "string %u", i);
		assert_int_equal(gm_log_writer_string(writer, text), i + 1);
	}
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "string %u", i);
		assert_int_equal(gm_log_writer_string(writer, text), i + 1);
	}
	ok(gm_log_writer_close(writer));
	struct gm_log *log = open_log();
	assert_string_equal(gm_log_string(log, 4321), "string 4320");
	assert_string_equal(gm_log_string(log, 5001), "");
	gm_log_close(log);
}

static void a_reader_sees_what_was_flushed_and_then_the_rest(void **state)
{
	struct gm_log_writer *writer = create();
	struct gm_event event = event_of(1);
	event.python_stack = event.native_stack = event.evidence = 0;
	gm_log_writer_event(writer, &event);
	ok(gm_log_writer_flush(writer));
	struct gm_log *log = open_log();
	assert_int_equal(gm_log_event_count(log), 1);
	assert_false(gm_log_closed(log));
	uint32_t frame = gm_log_writer_frame(writer, &(struct gm_log_frame){0, 2, 3, 4, 0});
	event.python_stack = gm_log_writer_python_stack(writer, &frame, 1);
	gm_log_writer_event(writer, &event);
	ok(gm_log_writer_flush(writer));
	ok(gm_log_refresh(log));
	assert_int_equal(gm_log_event_count(log), 2);
	struct gm_event got;
	gm_log_event(log, 1, &got);
	same_event(&got, &event);
	ok(gm_log_writer_close(writer));
	ok(gm_log_refresh(log));
	assert_true(gm_log_closed(log));
	gm_log_close(log);
}

static void a_log_that_was_rewritten_is_noticed(void **state)
{
	write_rich(10);
	struct gm_log *log = open_log();
	write_rich(20);
	struct gm_error *error = gm_log_refresh(log);
	assert_non_null(error);
	assert_int_equal(error->status, GM_CORRUPT);
	gm_error_destroy(error);
	gm_log_close(log);
}

static uint8_t *slurp(size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	fstat(fileno(file), &status);
	*ret_size = (size_t)status.st_size;
	uint8_t *bytes = malloc(*ret_size);
	assert_int_equal(fread(bytes, 1, *ret_size, file), *ret_size);
	fclose(file);
	return bytes;
}

static void spill(const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void a_log_cut_at_any_byte_is_read_up_to_its_last_whole_chunk(void **state)
{
	write_rich(40);
	size_t size;
	uint8_t *bytes = slurp(&size);
	uint64_t seen = 0;
	for (size_t cut = 0; cut < size; cut++) {
		spill(bytes, cut);
		struct gm_log *log = NULL;
		struct gm_error *error = gm_log_open(path, &log);
		if (cut < GM_LOG_HEADER_SIZE) {
			assert_non_null(error);
			assert_int_equal(error->status, GM_CORRUPT);
			gm_error_destroy(error);
			continue;
		}
		ok(error);
		uint64_t offset;
		bool truncated = gm_log_truncated(log, &offset);
		assert_true(offset <= cut);
		assert_int_equal(truncated, offset < cut);
		assert_true(gm_log_event_count(log) >= seen);
		seen = gm_log_event_count(log);
		for (uint64_t i = 0; i < seen; i++) {
			struct gm_event got, want = event_of((unsigned)i);
			gm_log_event(log, i, &got);
			same_event(&got, &want);
		}
		assert_false(gm_log_closed(log));
		gm_log_close(log);
	}
	assert_int_equal(seen, 40);
	free(bytes);
}

static void a_flipped_bit_anywhere_is_refused_with_its_place(void **state)
{
	write_rich(40);
	size_t size;
	uint8_t *bytes = slurp(&size);
	for (size_t at = 0; at < size; at++) {
		bytes[at] ^= (uint8_t)(1 << at % 8);
		spill(bytes, size);
		bytes[at] ^= (uint8_t)(1 << at % 8);
		struct gm_log *log = NULL;
		struct gm_error *error = gm_log_open(path, &log);
		if (!error)
			fail_msg("a flipped bit at byte %zu was not noticed", at);
		assert_int_equal(error->status, GM_CORRUPT);
		assert_non_null(strstr(error->message, path));
		if (at >= 12)
			assert_non_null(strstr(error->message, "damaged at byte "));
		gm_error_destroy(error);
	}
	free(bytes);
}

/* Damage with correct checksums, as in a hostile file. The reader must refuse it or read it, and
 * all that it returns must be readable. */
static void hostile_content_never_crashes_the_reader(void **state)
{
	write_rich(60);
	size_t size;
	uint8_t *bytes = slurp(&size);
	uint8_t *copy = malloc(size);
	uint64_t random = 88172645463325252ull;
	unsigned refused = 0;
	for (unsigned round = 0; round < 20000; round++) {
		memcpy(copy, bytes, size);
		for (size_t at = GM_LOG_HEADER_SIZE; at + GM_CHUNK_HEADER_SIZE <= size;) {
			struct gm_chunk_header header;
			assert_null(gm_chunk_header_decode(copy + at, &header));
			uint8_t *payload = copy + at + GM_CHUNK_HEADER_SIZE;
			for (unsigned i = 0; i < 2 && header.length; i++) {
				random ^= random << 13, random ^= random >> 7,
				        random ^= random << 17;
				if (random % 8 == 0)
					payload[(random >> 8) % header.length] =
					        (uint8_t)(random >> 40);
				if (random % 64 == 1)
					header.count += (uint32_t)(random >> 50);
				if (random % 64 == 2)
					header.type = (uint16_t)(random >> 50) % 20;
			}
			header.crc = gm_log_crc(payload, header.length);
			gm_chunk_header_encode(&header, copy + at);
			at += GM_CHUNK_HEADER_SIZE + header.length;
		}
		spill(copy, size);
		struct gm_log *log = NULL;
		struct gm_error *error = gm_log_open(path, &log);
		if (error) {
			assert_int_equal(error->status, GM_CORRUPT);
			gm_error_destroy(error);
			refused++;
			continue;
		}
		for (uint64_t i = 0; i < gm_log_event_count(log); i++) {
			struct gm_event event;
			gm_log_event(log, i, &event);
			size_t count;
			const uint32_t *stack =
			        gm_log_python_stack(log, event.python_stack, &count);
			for (size_t j = 0; j < count; j++) {
				struct gm_log_frame frame;
				assert_true(!stack[j] || gm_log_frame(log, stack[j], &frame));
			}
		}
		gm_log_close(log);
	}
	assert_true(refused > 1000);
	free(copy);
	free(bytes);
}

static size_t size_of_log(void)
{
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	return (size_t)status.st_size;
}

static void a_packed_log_is_smaller_and_is_all_of_it_packed_events(void **state)
{
	packed = false;
	write_rich(20000);
	size_t plain = size_of_log();
	packed = true;
	write_rich(20000);
	assert_true(size_of_log() < plain / 2);
}

/* One chunk of events, whose payload says that it unpacks to much more than its size allows. */
static void data_that_unpacks_to_too_much_is_refused(void **state)
{
	enum { ROOM = 1 << 22 };
	write_rich(60);
	size_t size;
	uint8_t *bytes = slurp(&size), *zeros = calloc(ROOM, 1);
	uint8_t frame[4096];
	size_t length = ZSTD_compress(frame, sizeof(frame), zeros, ROOM, 3);
	assert_false(ZSTD_isError(length));
	const struct gm_chunk_header header = {.type = GM_CHUNK_EVENTS,
	        .flags = GM_CHUNK_PACKED,
	        .length = (uint32_t)length,
	        .count = 100,
	        .crc = gm_log_crc(frame, length)};
	uint8_t *all = malloc(GM_LOG_HEADER_SIZE + GM_CHUNK_HEADER_SIZE + length);
	memcpy(all, bytes, GM_LOG_HEADER_SIZE);
	gm_chunk_header_encode(&header, all + GM_LOG_HEADER_SIZE);
	memcpy(all + GM_LOG_HEADER_SIZE + GM_CHUNK_HEADER_SIZE, frame, length);
	spill(all, GM_LOG_HEADER_SIZE + GM_CHUNK_HEADER_SIZE + length);
	struct gm_log *log = NULL;
	struct gm_error *error = gm_log_open(path, &log);
	assert_non_null(error);
	assert_int_equal(error->status, GM_CORRUPT);
	assert_non_null(strstr(error->message, "too long"));
	gm_error_destroy(error);
	free(all);
	free(zeros);
	free(bytes);
}

static void a_newer_format_is_refused_by_its_version(void **state)
{
	write_rich(1);
	size_t size;
	uint8_t *bytes = slurp(&size);
	bytes[8] = GM_LOG_MAJOR + 1;
	spill(bytes, size);
	free(bytes);
	struct gm_log *log = NULL;
	struct gm_error *error = gm_log_open(path, &log);
	assert_non_null(error);
	char want[160];
	snprintf(want, sizeof(want),
	        "%s: format %d.%d is newer than this gpumem, which reads up to %d: "
	        "open it with a newer gpumem",
	        path, GM_LOG_MAJOR + 1, GM_LOG_MINOR, GM_LOG_MAJOR);
	assert_string_equal(error->message, want);
	assert_int_equal(error->status, GM_CORRUPT);
	gm_error_destroy(error);
}

static void a_file_that_is_not_a_log_is_refused_with_the_reason(void **state)
{
	spill((const uint8_t *)"hello", 5);
	struct gm_log *log = NULL;
	struct gm_error *error = gm_log_open(path, &log);
	assert_non_null(error);
	assert_non_null(
	        strstr(error->message, "not a gpumem recording: it does not begin like one"));
	gm_error_destroy(error);
	error = gm_log_open("/dev/null", &log);
	assert_non_null(strstr(error->message, "it is not a regular file"));
	gm_error_destroy(error);
	error = gm_log_open("/nonexistent/log", &log);
	assert_non_null(error);
	assert_int_equal(error->status, GM_CORRUPT);
	gm_error_destroy(error);
}

static void a_log_that_cannot_be_created_names_its_path(void **state)
{
	struct gm_log_writer *writer = NULL;
	struct gm_error *error = gm_log_writer_create("/nonexistent/log", NULL, &writer);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "/nonexistent/log"));
	gm_error_destroy(error);
}

static void a_full_disk_is_reported_by_flush_and_close(void **state)
{
	if (access("/dev/full", W_OK) != 0)
		skip();
	struct gm_log_writer *writer = NULL;
	struct gm_error *error = gm_log_writer_create("/dev/full", NULL, &writer);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "No space left"));
	gm_error_destroy(error);
}

static void varints_of_every_length_round_trip(void **state)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t values[] = {UINT64_C(1) << bit, (UINT64_C(1) << bit) - 1};
		for (size_t i = 0; i < 2; i++) {
			uint8_t bytes[10];
			uint8_t *end = gm_put_varint(bytes, values[i]);
			struct gm_cursor cursor = {bytes, end, false};
			assert_int_equal(gm_get_varint(&cursor), values[i]);
			assert_ptr_equal(cursor.at, end);
			assert_false(cursor.bad);
			cursor = (struct gm_cursor){bytes, end - 1, false};
			gm_get_varint(&cursor);
			assert_true(cursor.bad);
		}
	}
	const uint8_t overlong[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
	struct gm_cursor cursor = {overlong, overlong + sizeof(overlong), false};
	gm_get_varint(&cursor);
	assert_true(cursor.bad);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_path, remove_path)
#define PACKED(name) cmocka_unit_test_setup_teardown(name, make_packed_path, remove_path)
	const struct CMUnitTest tests[] = {
	        TEST(what_was_written_is_read_back),
	        TEST(same_content_gets_the_same_id),
	        TEST(a_reader_sees_what_was_flushed_and_then_the_rest),
	        TEST(a_log_that_was_rewritten_is_noticed),
	        TEST(a_log_cut_at_any_byte_is_read_up_to_its_last_whole_chunk),
	        TEST(a_flipped_bit_anywhere_is_refused_with_its_place),
	        TEST(hostile_content_never_crashes_the_reader),
	        PACKED(what_was_written_is_read_back),
	        PACKED(a_reader_sees_what_was_flushed_and_then_the_rest),
	        PACKED(a_log_cut_at_any_byte_is_read_up_to_its_last_whole_chunk),
	        PACKED(a_flipped_bit_anywhere_is_refused_with_its_place),
	        PACKED(hostile_content_never_crashes_the_reader),
	        PACKED(a_packed_log_is_smaller_and_is_all_of_it_packed_events),
	        TEST(data_that_unpacks_to_too_much_is_refused),
	        TEST(a_newer_format_is_refused_by_its_version),
	        TEST(a_file_that_is_not_a_log_is_refused_with_the_reason),
	        TEST(a_log_that_cannot_be_created_names_its_path),
	        TEST(a_full_disk_is_reported_by_flush_and_close),
	        cmocka_unit_test(varints_of_every_length_round_trip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
