/* Packing in the agent's file: readers see the same events, whenever the packer is killed and while
 * it packs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/format.h"
#include "agent/spool.h"
#include "ask/context.h"
#include "base/varint.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "log/log.h"
#include "spool/spool.h"
#include "at_call.h"
#include "spool_file.h"

enum { EXTENTS = 12, THREADS = 3 };

struct file {
	char path[64];
	int fd;
	uint64_t sequence; /* of the last event */
	unsigned random;
};

static uint8_t *put_event(uint8_t *at, struct file *file, uint64_t *last)
{
	uint64_t sequence = ++file->sequence;
	uint16_t bits = GM_AGENT_GRAIN | GM_AGENT_HAS_SEQUENCE;
	*at++ = 0x80 | GM_AGENT_ALLOC;
	*at++ = (uint8_t)bits;
	*at++ = (uint8_t)(bits >> 8);
	at = gm_put_varint(at, gm_zigzag((int64_t)(1000 + rand_r(&file->random) % 5000)));
	at = gm_put_varint(at, gm_zigzag(1 + rand_r(&file->random) % 64));
	at = gm_put_varint(at, 1 + sequence % 9);
	at = gm_put_varint(at, sequence - *last - 1);
	*last = sequence;
	return at;
}

/* Fills most of an extent at no cost for a reader. */
static uint8_t *put_filler(uint8_t *at, struct file *file)
{
	enum { TEXT = 900 };
	uint8_t payload[TEXT + 32], *end = gm_put_varint(payload, TEXT);
	for (int i = 0; i < TEXT; i++)
		*end++ = (uint8_t)('a' + rand_r(&file->random) % 13);
	end = gm_put_varint(end, 1);
	at = gm_put_varint(at, GM_AGENT_COUNTER);
	at = gm_put_varint(at, (uint64_t)(end - payload));
	memcpy(at, payload, (size_t)(end - payload));
	return at + (end - payload);
}

/* A further extent, with `share` of it full. */
static void add_extent(struct file *file, double share, bool finished)
{
	static uint8_t bytes[GM_AGENT_EXTENT_SIZE];
	memset(bytes, 0, sizeof(bytes));
	struct gm_agent_extent_header *header = (void *)bytes;
	uint8_t *begin = bytes + GM_AGENT_EXTENT_HEADER, *at = begin;
	uint64_t last = 0;
	uint32_t number;
	assert_int_equal(
	        pread(file->fd, &number, 4, offsetof(struct gm_agent_file_header, extents)), 4);
	header->magic = GM_AGENT_EXTENT_MAGIC;
	header->thread = 100 + number % THREADS;
	header->finished = finished;
	while (at - begin < (GM_AGENT_RECORD_MAX - 2000) * share) {
		for (int i = 0; i < 5; i++)
			at = put_event(at, file, &last);
		at = put_filler(at, file);
	}
	header->committed = (uint32_t)(at - begin);
	assert_int_equal(
	        pwrite(file->fd, bytes, sizeof(bytes), spool_offset(number)), sizeof(bytes));
	number++;
	assert_int_equal(
	        pwrite(file->fd, &number, 4, offsetof(struct gm_agent_file_header, extents)), 4);
}

static void begin(struct file *file, uint32_t extents)
{
	*file = (struct file){.random = 11};
	strcpy(file->path, "/tmp/gpumem-test-pack-XXXXXX");
	file->fd = mkstemp(file->path);
	assert_true(file->fd >= 0);
	struct gm_agent_file_header header = spool_header();
	assert_int_equal(pwrite(file->fd, &header, sizeof(header), 0), sizeof(header));
	for (uint32_t i = 0; i < extents; i++)
		add_extent(file, 1, true);
	add_extent(file, 0.3, false); /* one that a thread still writes */
}

static void end(struct file *file)
{
	close(file->fd);
	unlink(file->path);
}

/* What a log says, as one number. */
static uint64_t sum_of(const struct gm_log *log)
{
	uint64_t sum = gm_log_event_count(log);
	for (uint64_t i = 0; i < gm_log_event_count(log); i++) {
		struct gm_event event;
		gm_log_event(log, i, &event);
		const uint64_t words[] = {event.thread, event.time_ns, event.address, event.size};
		sum = gm_hash_bytes(words, sizeof(words), sum);
	}
	return sum;
}

static uint64_t read_all(const struct file *file)
{
	struct gm_log *log;
	struct gm_error *error = gm_spool_import(file->path, &log);
	if (error)
		fail_msg("%s", error->message);
	assert_int_equal(gm_log_event_count(log), file->sequence);
	uint64_t sum = sum_of(log);
	gm_log_close(log);
	return sum;
}

static uint64_t pack_all(const struct file *file)
{
	struct gm_spool_packer *packer;
	uint64_t extents, bytes;
	assert_null(gm_spool_packer_open(file->path, &packer));
	if (!packer)
		skip(); /* the file system cannot release pages of a file */
	assert_true(gm_spool_packer_step(packer));
	gm_spool_packer_count(packer, &extents, &bytes);
	gm_spool_packer_close(packer);
	return extents;
}

static int64_t disk_size(const struct file *file)
{
	struct stat status;
	assert_int_equal(fstat(file->fd, &status), 0);
	return status.st_blocks * INT64_C(512);
}

static void a_packed_file_reads_the_same_and_is_smaller(void **state)
{
	struct file file;
	begin(&file, EXTENTS);
	uint64_t before = read_all(&file);
	int64_t size = disk_size(&file);
	assert_int_equal(pack_all(&file), EXTENTS);
	assert_true(disk_size(&file) < size * 7 / 10);
	assert_int_equal(read_all(&file), before);
	assert_int_equal(pack_all(&file), 0);
	/* and what comes behind it */
	add_extent(&file, 1, true);
	before = read_all(&file);
	assert_int_equal(pack_all(&file), 1);
	assert_int_equal(read_all(&file), before);
	end(&file);
}

/* Packs the file in a process that is killed at its `calls`-th system call. False: it had finished
 * before. */
static bool packs_until(const struct file *file, unsigned calls)
{
	pid_t child = fork();
	if (child == 0) {
		struct gm_spool_packer *packer = NULL;
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(2);
		raise(SIGSTOP);
		gm_error_destroy(gm_spool_packer_open(file->path, &packer));
		if (packer)
			gm_spool_packer_step(packer);
		_exit(0);
	}
	int status = run_to_call(child, 2 * calls);
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return false;
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	return true;
}

static void a_packer_may_be_killed_at_any_moment(void **state)
{
	struct file file;
	unsigned kills = 0;
	begin(&file, EXTENTS);
	uint64_t before = read_all(&file);
	/* A packer continues where the last one was killed. The number of calls grows, so
	 * that each call is once the last one. */
	for (unsigned calls = 1; packs_until(&file, calls); calls += 1 + calls / 8) {
		kills++;
		assert_int_equal(read_all(&file), before);
	}
	assert_true(kills >= EXTENTS);
	int64_t size = disk_size(&file);
	pack_all(&file);
	assert_int_equal(read_all(&file), before);
	assert_true(disk_size(&file) <= size);
	end(&file);
}

static void a_reader_during_packing_reads_the_same(void **state)
{
	struct file file;
	begin(&file, EXTENTS);
	uint64_t before = read_all(&file);
	for (int round = 0; round < 6; round++) {
		pid_t child = fork();
		if (child == 0) {
			struct gm_spool_packer *packer = NULL;
			gm_error_destroy(gm_spool_packer_open(file.path, &packer));
			if (packer)
				gm_spool_packer_step(packer);
			_exit(0);
		}
		while (waitpid(child, NULL, WNOHANG) == 0)
			assert_int_equal(read_all(&file), before);
		for (int i = 0; i < 3; i++)
			add_extent(&file, 1, true);
		before = read_all(&file);
	}
	end(&file);
}

static void a_growing_file_is_followed_while_it_is_packed(void **state)
{
	struct file file;
	struct gm_spool_live *live;
	struct gm_log *log;
	bool ended;
	begin(&file, 2);
	assert_null(gm_spool_live_open(file.path, &live, &log));
	assert_non_null(live);
	for (int round = 0; round < 10; round++) {
		if (round % 3 != 0)
			add_extent(&file, 1, round != 4);
		if (round % 2)
			pack_all(&file);
		assert_null(gm_spool_live_update(live, &ended));
		assert_false(ended);
		assert_null(gm_log_refresh(log));
		assert_int_equal(gm_log_event_count(log), file.sequence);
	}
	uint64_t sum = sum_of(log);
	gm_log_close(log);
	gm_spool_live_close(live);
	assert_int_equal(sum, read_all(&file));
	end(&file);
}

static void two_processes_do_not_pack_one_file(void **state)
{
	struct file file;
	struct gm_spool_packer *one, *other;
	begin(&file, 1);
	assert_null(gm_spool_packer_open(file.path, &one));
	if (!one)
		skip();
	assert_null(gm_spool_packer_open(file.path, &other));
	assert_null(other);
	gm_spool_packer_close(one);
	end(&file);
}

/* ---- a recording becomes a log -----------------------------------------------------------------
 */

static void put_state(const struct file *file, uint32_t state)
{
	enum { STATE = offsetof(struct gm_agent_file_header, state) };
	assert_int_equal(pwrite(file->fd, &state, sizeof(state), STATE), sizeof(state));
}

/* As `gpumem run` and the process that packs do at the end of the recorded process. */
static void become_log(void *context)
{
	const struct file *file = context;
	const struct gm_spool_options options = {.packed = true};
	struct gm_spool_summary summary;
	char made[sizeof(file->path) + 8];
	snprintf(made, sizeof(made), "%s.log", file->path);
	assert_null(gm_spool_convert(file->path, made, &options, &summary));
	assert_int_equal(rename(made, file->path), 0);
}

/* Reads the file as every question does, in a process that is stopped at its `calls`-th system call
 * while the file becomes a log. False: it had finished before. */
static bool reads_on_until(struct file *file, unsigned calls)
{
	pid_t child = fork();
	if (child == 0) {
		struct gm_context context;
		struct gm_log *log;
		gm_context_init(&context);
		gm_error_destroy(gm_context_set_log(&context, file->path));
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(2);
		raise(SIGSTOP);
		for (int i = 0; i < 2; i++) {
			gm_context_invalidate(&context);
			struct gm_error *error = gm_context_log(&context, &log);
			if (error) {
				fprintf(stderr, "at call %u: %s\n", calls, error->message);
				_exit(1);
			}
			if (gm_log_event_count(log) != file->sequence)
				_exit(3);
		}
		_exit(0);
	}
	return change_at_call(child, calls, become_log, file);
}

static void a_recording_may_become_a_log_at_any_moment_of_a_reading(void **state)
{
	static const uint32_t states[] = {GM_AGENT_RUNS, GM_AGENT_STOPPED};
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		bool stands = true;
		for (unsigned calls = 1; stands; calls++) {
			struct file file;
			begin(&file, 0);
			put_state(&file, states[i]);
			stands = reads_on_until(&file, calls);
			end(&file);
		}
	}
}

static void expect_damaged(const struct file *file)
{
	struct gm_log *log = NULL;
	struct gm_error *error = gm_spool_import(file->path, &log);
	assert_non_null(error);
	assert_int_equal(error->status, GM_CORRUPT);
	gm_error_destroy(error);
}

static void packed_records_that_are_damaged_are_reported(void **state)
{
	enum { IN = offsetof(struct gm_agent_extent_header, packed_in) };
	struct file file;
	begin(&file, 2);
	pack_all(&file);
	uint32_t words[2], wrong[2];
	assert_int_equal(pread(file.fd, words, sizeof(words), spool_offset(0) + IN), sizeof(words));
	assert_true(words[0] > 0);
	const uint32_t tries[][2] = {{words[0] + 1000, words[1]}, {UINT32_MAX, UINT32_MAX},
	        {words[0], words[1] + 8}, {words[0], 0}, {1, words[1]}};
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		memcpy(wrong, tries[i], sizeof(wrong));
		assert_int_equal(pwrite(file.fd, wrong, sizeof(wrong), spool_offset(0) + IN), 8);
		expect_damaged(&file);
	}
	assert_int_equal(
	        pwrite(file.fd, words, sizeof(words), spool_offset(0) + IN), sizeof(words));
	read_all(&file);
	uint8_t byte;
	off_t at =
	        spool_offset(words[0] - 1) + words[1] + (off_t)sizeof(struct gm_agent_packed) + 50;
	assert_int_equal(pread(file.fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(file.fd, &byte, 1, at), 1);
	expect_damaged(&file);
	end(&file);
}

static uint32_t extents_of(const struct file *file)
{
	uint32_t number;
	assert_int_equal(
	        pread(file->fd, &number, 4, offsetof(struct gm_agent_file_header, extents)), 4);
	return number;
}

/* A packer tries again twice a second. */
static void a_full_disk_uses_up_no_extents(void **state)
{
	struct file file;
	struct rlimit before;
	struct gm_spool_packer *packer;
	begin(&file, EXTENTS);
	const uint32_t extents = extents_of(&file);
	uint64_t sum = read_all(&file);
	assert_null(gm_spool_packer_open(file.path, &packer));
	if (!packer)
		skip();
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	const struct rlimit full = {(rlim_t)spool_offset(extents), before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	for (int i = 0; i < 3; i++)
		gm_spool_packer_step(packer);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(extents_of(&file), extents);
	gm_spool_packer_step(packer);
	gm_spool_packer_close(packer);
	assert_true(extents_of(&file) > extents);
	assert_int_equal(read_all(&file), sum);
	end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_packed_file_reads_the_same_and_is_smaller),
	        cmocka_unit_test(a_packer_may_be_killed_at_any_moment),
	        cmocka_unit_test(a_reader_during_packing_reads_the_same),
	        cmocka_unit_test(a_growing_file_is_followed_while_it_is_packed),
	        cmocka_unit_test(two_processes_do_not_pack_one_file),
	        cmocka_unit_test(a_full_disk_uses_up_no_extents),
	        cmocka_unit_test(a_recording_may_become_a_log_at_any_moment_of_a_reading),
	        cmocka_unit_test(packed_records_that_are_damaged_are_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
