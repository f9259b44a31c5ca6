/* The agent's file as a whole: whether its process runs, and files that are not what they say. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "log/log.h"
#include "spool/internal.h"
#include "spool/spool.h"
#include "at_call.h"
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

static void a_name_with_a_line_feed_is_no_end_of_a_process(void **state)
{
	char name[16];
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	assert_int_equal(prctl(PR_SET_NAME, "a\nb) Z"), 0);
	assert_true(runs((uint32_t)getpid(), spool_header().start_ns));
	assert_int_equal(prctl(PR_SET_NAME, name), 0);
}

static void a_thread_of_the_kernel_records_nothing(void **state)
{
	char line[64] = "";
	_cleanup_fclose_ FILE *file = fopen("/proc/2/comm", "r");
	if (!file || !fgets(line, sizeof(line), file) || strcmp(line, "kthreadd\n") != 0)
		skip(); /* a container, whose process 2 is another one */
	assert_false(runs(2, spool_header().start_ns));
}

/* ---- sparse files ---- */

static struct spool_extent extent;

/* A record whose id is that of the last of `id` ones, and nothing else. */
static void put_id(struct spool_file *file, uint32_t kind, uint32_t id)
{
	uint8_t payload[16], *at = gm_put_varint(payload, id);
	for (int i = 0; i < 3; i++)
		at = gm_put_varint(at, 0);
	spool_extent_begin(file, &extent, 1, 1);
	spool_put(&extent, kind, payload, (size_t)(at - payload));
	spool_extent_commit(file, &extent);
}

/* Older agents went on with the numbers of the process's earlier recordings. */
static void evidence_of_a_later_recording_may_have_a_great_id(void **state)
{
	for (int stack = 0; stack < 2; stack++) {
		struct spool_file file;
		struct gm_log *log = NULL;
		spool_begin(&file, GM_AGENT_STOPPED);
		put_id(&file, stack ? GM_AGENT_PYTHON_STACK : GM_AGENT_EVIDENCE, 200000);
		struct gm_error *error = gm_spool_import(file.path, &log);
		assert_int_equal(error != NULL, stack);
		gm_error_destroy(error);
		gm_log_close(log);
		spool_end(&file);
	}
}

/* Extents that seem to be full, of which only the first page is in the file. */
static void add_sparse(struct spool_file *file, uint32_t count, bool packed)
{
	const struct gm_agent_extent_header header = {.magic = GM_AGENT_EXTENT_MAGIC,
	        .committed = GM_AGENT_RECORD_MAX,
	        .thread = 1,
	        .packed_in = packed};
	for (uint32_t i = 0; i < count; i++)
		spool_write(file, &header, sizeof(header), spool_offset(file->extents++));
	assert_int_equal(ftruncate(file->fd, spool_offset(file->extents)), 0);
	spool_write(file, &file->extents, sizeof(file->extents),
	        offsetof(struct gm_agent_file_header, extents));
}

static void an_id_is_not_greater_than_the_number_of_records_that_the_file_can_have(void **state)
{
	enum { ID = 20000000, SIZE = 1 << 28 };
	for (int full = 0; full < 3; full++) {
		struct spool_file file;
		struct gm_log *log = NULL;
		spool_begin(&file, GM_AGENT_STOPPED);
		put_id(&file, GM_AGENT_PYTHON_STACK, ID);
		if (full)
			add_sparse(&file, SIZE / GM_AGENT_EXTENT_SIZE, full == 2);
		assert_int_equal(ftruncate(file.fd, SIZE), 0);
		struct gm_error *error = gm_spool_import(file.path, &log);
		assert_non_null(error);
		assert_int_equal(error->status, GM_CORRUPT);
		assert_non_null(
		        strstr(error->message, "(extent 0): no record: the file is damaged"));
		gm_error_destroy(error);
		spool_end(&file);
	}
}

/* Bytes of this process's memory that are no file's. */
static uint64_t memory_used(void)
{
	char line[128];
	unsigned long kib = 0;
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "r");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %lu", &kib) == 1)
			break;
	return (uint64_t)kib << 10;
}

static void the_copy_of_a_ring_is_as_sparse_as_its_file(void **state)
{
	enum { EXTENTS = 512 };
	struct spool_file file;
	struct gm_spool_file opened;
	spool_begin(&file, GM_AGENT_STOPPED);
	struct gm_agent_file_header header = spool_header();
	header.ring = EXTENTS;
	spool_write(&file, &header, sizeof(header), 0);
	add_sparse(&file, EXTENTS, false);
	uint64_t before = memory_used();
	assert_null(gm_spool_open(file.path, &opened));
	assert_true(memory_used() - before < EXTENTS * (uint64_t)GM_AGENT_EXTENT_SIZE / 8);
	gm_spool_close(&opened);
	spool_end(&file);
}

/* ---- a file that becomes shorter ---- */

enum { EVENTS_EXTENTS = 3 };

static void begin_with_events(struct spool_file *file, uint32_t ring)
{
	spool_begin(file, GM_AGENT_RUNS);
	struct gm_agent_file_header header = spool_header();
	header.ring = ring;
	spool_write(file, &header, sizeof(header), 0);
	uint64_t sequence = 1;
	for (int i = 0; i < EVENTS_EXTENTS; i++) {
		spool_extent_begin(file, &extent, 1, sequence);
		while (extent.at < extent.bytes + GM_AGENT_EXTENT_SIZE / 2)
			spool_put_event(&extent, sequence++);
		((struct gm_agent_extent_header *)extent.bytes)->finished = 1;
		spool_extent_commit(file, &extent);
	}
}

static void import(const char *path)
{
	struct gm_log *log = NULL;
	struct gm_error *error = gm_spool_import(path, &log);
	if (!error)
		gm_log_close(log);
	gm_error_destroy(error);
}

static void read_live(const char *path)
{
	struct gm_spool_live *live = NULL;
	struct gm_log *log = NULL;
	bool ended;
	struct gm_error *error = gm_spool_live_open(path, &live, &log);
	if (!error && live) {
		error = gm_spool_live_update(live, &ended);
		gm_log_close(log);
		gm_spool_live_close(live);
	}
	gm_error_destroy(error);
}

static void pack(const char *path)
{
	struct gm_spool_packer *packer = NULL;
	struct gm_error *error = gm_spool_packer_open(path, &packer);
	for (int i = 0; i < 2 && packer; i++)
		gm_spool_packer_step(packer);
	gm_spool_packer_close(packer);
	gm_error_destroy(error);
}

static void ask(const char *path)
{
	struct gm_spool_asked *asked = NULL;
	struct gm_error *error = gm_spool_asked_open(path, &asked);
	if (asked)
		gm_spool_asked_wait(asked, 0);
	gm_spool_asked_close(asked);
	gm_error_destroy(error);
}

struct cut {
	int fd;
	off_t size;
};

static void cut_file(void *context)
{
	const struct cut *cut = context;
	assert_int_equal(ftruncate(cut->fd, cut->size), 0);
}

/* Does so in a process that is stopped at its `calls`-th system call while the file is cut. False:
 * it had finished before. */
static bool survives_cut(
        const struct spool_file *file, void (*work)(const char *), unsigned calls, off_t size)
{
	pid_t child = fork();
	if (child == 0) {
		signal(SIGBUS, SIG_DFL); /* not cmocka's */
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(2);
		raise(SIGSTOP);
		work(file->path);
		_exit(0);
	}
	struct cut cut = {file->fd, size};
	return change_at_call(child, calls, cut_file, &cut);
}

static void a_file_may_become_shorter_at_any_moment(void **state)
{
	static const struct {
		void (*work)(const char *);
		uint32_t ring;
	} cases[] = {{import, 0}, {import, EVENTS_EXTENTS}, {read_live, 0}, {pack, 0}, {ask, 0}};
	static const off_t sizes[] = {0, GM_AGENT_HEADER_SIZE};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) * 2; i++) {
		bool stands = true;
		/* a process makes many calls that are alike */
		for (unsigned calls = 1; stands; calls += 1 + calls / 16) {
			struct spool_file file;
			begin_with_events(&file, cases[i / 2].ring);
			stands = survives_cut(&file, cases[i / 2].work, calls, sizes[i % 2]);
			spool_end(&file);
		}
	}
}

/* Not when it was asked: several processes of a rank are told apart by it. */
static void a_recording_starts_when_its_process_began_to_record(void **state)
{
	struct spool_file file;
	struct gm_spool_live *live;
	struct gm_log *log;
	struct gm_agent_file_header header;
	begin_with_events(&file, 0);
	assert_int_equal(pread(file.fd, &header, sizeof(header), 0), sizeof(header));
	header.start_ns -= UINT64_C(1000000000);
	assert_int_equal(pwrite(file.fd, &header, sizeof(header), 0), sizeof(header));
	assert_null(gm_spool_import(file.path, &log));
	assert_int_equal(gm_log_start_ns(log), header.start_ns);
	gm_log_close(log);
	assert_null(gm_spool_live_open(file.path, &live, &log));
	assert_non_null(live);
	assert_int_equal(gm_log_start_ns(log), header.start_ns);
	gm_log_close(log);
	gm_spool_live_close(live);
	spool_end(&file);
}

static void a_file_that_became_shorter_is_not_read_on(void **state)
{
	struct spool_file file;
	struct gm_spool_live *live;
	struct gm_log *log;
	bool ended;
	begin_with_events(&file, 0);
	assert_null(gm_spool_live_open(file.path, &live, &log));
	assert_non_null(live);
	assert_int_equal(ftruncate(file.fd, GM_AGENT_HEADER_SIZE), 0);
	struct gm_error *error = gm_spool_live_update(live, &ended);
	assert_non_null(error);
	assert_non_null(strstr(error->message, ": the file became shorter while it was read"));
	gm_error_destroy(error);
	gm_log_close(log);
	gm_spool_live_close(live);
	spool_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_process_that_began_after_the_recording_is_another_one),
	        cmocka_unit_test(a_name_with_a_line_feed_is_no_end_of_a_process),
	        cmocka_unit_test(a_thread_of_the_kernel_records_nothing),
	        cmocka_unit_test(evidence_of_a_later_recording_may_have_a_great_id),
	        cmocka_unit_test(
	                an_id_is_not_greater_than_the_number_of_records_that_the_file_can_have),
	        cmocka_unit_test(the_copy_of_a_ring_is_as_sparse_as_its_file),
	        cmocka_unit_test(a_file_may_become_shorter_at_any_moment),
	        cmocka_unit_test(a_recording_starts_when_its_process_began_to_record),
	        cmocka_unit_test(a_file_that_became_shorter_is_not_read_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
