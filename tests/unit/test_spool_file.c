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
#include "log/log.h"
#include "spool/internal.h"
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

/* ---- sparse files ---- */

static struct spool_extent extent;

/* A record whose id is that of the last of `id` ones, and nothing else. */
static void put_id(struct spool_file *file, uint32_t id)
{
	uint8_t payload[16], *at = gm_put_varint(payload, id);
	for (int i = 0; i < 3; i++)
		at = gm_put_varint(at, 0);
	spool_extent_begin(file, &extent, 1, 1);
	spool_put(&extent, GM_AGENT_PYTHON_STACK, payload, (size_t)(at - payload));
	spool_extent_commit(file, &extent);
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
		put_id(&file, ID);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_process_that_began_after_the_recording_is_another_one),
	        cmocka_unit_test(a_thread_of_the_kernel_records_nothing),
	        cmocka_unit_test(
	                an_id_is_not_greater_than_the_number_of_records_that_the_file_can_have),
	        cmocka_unit_test(the_copy_of_a_ring_is_as_sparse_as_its_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
