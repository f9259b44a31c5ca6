/*
 * Cores that gpumem writes, of a child that has memory of each kind. gpumem's reader reads them,
 * and the test compares them with the child's memory.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "child.h"
#include "image/core_write.h"
#include "image/image.h"

enum {
	PAGE = 4096,
	LARGE = 64 << 20, /* longer than the gaps that become holes */
	SMALL = 1 << 20,
	PAGES = SMALL / PAGE,
};

/* What the child reports; each is an address. */
enum { TOUCHED, SPARSE, UNTOUCHED, SHARED, HIDDEN, DEVICE, WORDS };

static char folder[64];
static struct child child;

static void *map(size_t size, int protection, int flags, int fd)
{
	void *memory = mmap(NULL, size, protection, flags, fd, 0);
	if (memory == MAP_FAILED)
		_exit(2);
	return memory;
}

static void *wait_here(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void prepare(uint64_t *words)
{
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t *touched = map(SMALL, PROT_READ | PROT_WRITE, anonymous, -1);
	for (uint64_t i = 0; i < SMALL / 8; i++)
		touched[i] = i + 1;
	uint8_t *sparse = map(LARGE, PROT_READ | PROT_WRITE, anonymous, -1);
	sparse[0] = 1;
	sparse[5 * PAGE] = 2;
	sparse[LARGE - 1] = 3;
	void *untouched = map(LARGE, PROT_READ | PROT_WRITE, anonymous, -1);
	uint8_t *shared = map(SMALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	shared[3 * PAGE] = 4;
	uint8_t *hidden = map(SMALL, PROT_READ | PROT_WRITE, anonymous, -1);
	hidden[0] = 5;
	if (madvise(hidden, SMALL, MADV_DONTDUMP) != 0)
		_exit(3);
	int fd = memfd_create("gpumem-sim-device", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, LARGE) != 0)
		_exit(4);
	uint8_t *device = map(LARGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	device[0] = 6;
	words[TOUCHED] = (uintptr_t)touched;
	words[SPARSE] = (uintptr_t)sparse;
	words[UNTOUCHED] = (uintptr_t)untouched;
	words[SHARED] = (uintptr_t)shared;
	words[HIDDEN] = (uintptr_t)hidden;
	words[DEVICE] = (uintptr_t)device;
	pthread_t thread;
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, wait_here, NULL);
}

static int begin(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/gpumem-write-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	child = child_start(prepare);
	return 0;
}

static int end(void **state)
{
	child_end(&child);
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static const char *file_in_folder(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static long field(const char *file, const char *name)
{
	char path[64], line[256];
	snprintf(path, sizeof(path), "/proc/%d/%s", child.pid, file);
	_cleanup_fclose_ FILE *stream = fopen(path, "re");
	assert_non_null(stream);
	while (fgets(line, sizeof(line), stream)) {
		if (strncmp(line, name, strlen(name)) == 0)
			return strtol(line + strlen(name), NULL, 10);
	}
	fail_msg("no %s in %s", name, path);
	return 0;
}

static struct gm_core_written write_it(const char *path, struct gm_core_options options)
{
	struct gm_image *image = NULL;
	struct gm_core_written written = {0};
	assert_null(gm_image_open_pid(child.pid, &image));
	struct gm_error *error = gm_core_write(image, path, &options, &written);
	if (error)
		fail_msg("%s", error->message);
	gm_image_close(image);
	return written;
}

static struct gm_image *written_image(void)
{
	struct gm_image *image = NULL;
	const char *path = file_in_folder("core");
	write_it(path, (struct gm_core_options){0});
	struct gm_error *error = gm_image_open_core(path, &image);
	if (error)
		fail_msg("%s", error->message);
	return image;
}

static void assert_refused(struct gm_image *image, uint64_t address, const char *why)
{
	char byte;
	struct gm_error *error = gm_image_read(image, address, &byte, 1);
	assert_non_null(error);
	if (!strstr(error->message, why))
		fail_msg("'%s' does not say '%s'", error->message, why);
	gm_error_destroy(error);
}

/* --- what is in it ---------------------------------------------------------------------------- */

static void a_core_has_touched_memory_and_the_rest_reads_as_zero(void **state)
{
	struct gm_image *image = written_image();
	_cleanup_free_ uint64_t *words = malloc(SMALL);
	assert_null(gm_image_read(image, child.words[TOUCHED], words, SMALL));
	for (uint64_t i = 0; i < SMALL / 8; i++)
		assert_int_equal(words[i], i + 1);
	_cleanup_free_ uint8_t *sparse = malloc(LARGE);
	assert_null(gm_image_read(image, child.words[SPARSE], sparse, LARGE));
	for (size_t i = 0; i < LARGE; i++) {
		uint8_t expected = i == 0 ? 1 : i == 5 * PAGE ? 2 : i == LARGE - 1 ? 3 : 0;
		if (sparse[i] != expected)
			fail_msg("byte %zu is %d", i, sparse[i]);
	}
	assert_null(gm_image_read(image, child.words[UNTOUCHED], sparse, LARGE));
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(sparse[i], 0);
	gm_image_close(image);
}

static void a_core_has_the_shared_memory_that_the_process_touched(void **state)
{
	struct gm_image *image = written_image();
	uint8_t byte;
	assert_null(gm_image_read(image, child.words[SHARED] + 3 * PAGE, &byte, 1));
	assert_int_equal(byte, 4);
	/* Another process may have written there: it is not known to be zero. */
	assert_refused(image, child.words[SHARED] + 7 * PAGE, "not saved in the core");
	gm_image_close(image);
}

static void device_memory_and_what_the_program_hides_is_not_saved(void **state)
{
	struct gm_image *image = written_image();
	assert_refused(
	        image, child.words[DEVICE], "mapped but not saved in the core (/memfd:gpumem-sim");
	assert_refused(image, child.words[HIDDEN], "mapped but not saved in the core");
	const struct gm_mapping *mapping = gm_image_find_mapping(image, child.words[DEVICE]);
	assert_non_null(mapping);
	assert_true(mapping->flags & GM_MAPPING_DEVICE);
	gm_image_close(image);
}

static void a_core_has_threads_and_registers_the_chosen_one_first(void **state)
{
	struct gm_image *live = NULL, *image = NULL;
	assert_null(gm_image_open_pid(child.pid, &live));
	_cleanup_free_ pid_t *threads = NULL, *saved = NULL;
	size_t count, saved_count;
	assert_null(gm_image_threads(live, &threads, &count));
	assert_int_equal(count, 4);
	gm_image_close(live);
	const char *path = file_in_folder("chosen");
	write_it(path, (struct gm_core_options){.thread = threads[2], .signal = SIGABRT});
	assert_null(gm_image_open_core(path, &image));
	assert_null(gm_image_threads(image, &saved, &saved_count));
	assert_int_equal(saved_count, 4);
	assert_int_equal(saved[0], threads[2]);
	assert_int_equal(gm_image_main_thread(image), child.pid);
	for (size_t i = 0; i < count; i++) {
		struct gm_registers registers;
		assert_null(gm_image_registers(image, threads[i], &registers));
		assert_non_null(gm_image_find_mapping(image, registers.value[GM_RIP]));
		assert_non_null(gm_image_find_mapping(image, registers.value[GM_RSP]));
	}
	gm_image_close(image);
	unlink(path);
}

static void a_core_takes_no_more_disk_than_was_touched(void **state)
{
	const char *path = file_in_folder("sparse");
	struct gm_core_written written = write_it(path, (struct gm_core_options){0});
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_blocks * 512, written.disk);
	assert_int_equal(status.st_size, written.length);
	assert_true(written.disk <= written.memory + SMALL);
	assert_true(written.untouched >= 2 * (uint64_t)LARGE - SMALL);
	assert_int_equal(written.device, LARGE);
	assert_int_equal(written.unread, 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	unlink(path);
}

static void a_compressed_one_is_the_same_core(void **state)
{
	const char *path = file_in_folder("core.zst");
	write_it(path, (struct gm_core_options){.compress = true});
	struct gm_image *image = NULL;
	assert_null(gm_image_open_core(path, &image));
	uint64_t word;
	assert_null(gm_image_read(image, child.words[TOUCHED] + 80, &word, 8));
	assert_int_equal(word, 11);
	gm_image_close(image);
}

/* --- what it does to the process -------------------------------------------------------------- */

static void the_process_does_not_grow(void **state)
{
	write_it(file_in_folder("core"),
	        (struct gm_core_options){0}); /* whatever the first one touches */
	long before = field("status", "VmRSS:"), tables = field("status", "VmPTE:");
	write_it(file_in_folder("core"), (struct gm_core_options){0});
	assert_int_equal(field("status", "VmRSS:"), before);
	assert_int_equal(field("status", "VmPTE:"), tables);
}

static void the_process_continues_untraced(void **state)
{
	write_it(file_in_folder("core"), (struct gm_core_options){0});
	assert_int_equal(field("status", "TracerPid:"), 0);
	struct child other =
	        child_start(prepare); /* a running child ends at SIGTERM, a stopped one does not */
	struct gm_image *image = NULL;
	assert_null(gm_image_open_pid(other.pid, &image));
	struct gm_core_written written;
	const struct gm_core_options options = {0};
	assert_null(gm_core_write(image, file_in_folder("core"), &options, &written));
	gm_image_close(image);
	kill(other.pid, SIGTERM);
	int status;
	assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void a_stopped_process_stays_stopped(void **state)
{
	struct child other = child_start(prepare);
	kill(other.pid, SIGSTOP);
	int status;
	assert_int_equal(waitpid(other.pid, &status, WUNTRACED), other.pid);
	struct gm_image *image = NULL;
	struct gm_core_written written;
	const struct gm_core_options options = {0};
	assert_null(gm_image_open_pid(other.pid, &image));
	assert_null(gm_core_write(image, file_in_folder("core"), &options, &written));
	gm_image_close(image);
	kill(other.pid, SIGTERM); /* a stopped process handles it only when it continues */
	usleep(20000);
	assert_int_equal(waitpid(other.pid, &status, WNOHANG), 0);
	kill(other.pid, SIGCONT);
	assert_int_equal(waitpid(other.pid, &status, 0), other.pid);
	assert_true(WIFSIGNALED(status));
}

static void a_process_that_we_trace_already_is_used_unchanged(void **state)
{
	struct child other = child_start(prepare);
	struct gm_image *image = NULL;
	struct gm_core_written written;
	const struct gm_core_options options = {0};
	child_stop(other.pid);
	assert_null(gm_image_open_pid(other.pid, &image));
	const char *path = file_in_folder("core");
	assert_null(gm_core_write(image, path, &options, &written));
	struct gm_registers before, after;
	assert_null(gm_image_registers(image, other.pid, &before)); /* still stopped by us */
	gm_image_close(image);
	assert_null(gm_image_open_core(path, &image));
	assert_null(gm_image_registers(image, other.pid, &after));
	assert_memory_equal(&before, &after, sizeof(before));
	gm_image_close(image);
	child_end(&other);
}

static void a_process_traced_by_another_is_refused_with_the_tracers_number(void **state)
{
	struct child other = child_start(prepare);
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t tracer = fork();
	if (tracer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_stop(other.pid);
		if (write(ends[1], "x", 1) == 1)
			wait_here(NULL);
		_exit(1);
	}
	char byte;
	assert_int_equal(read(ends[0], &byte, 1), 1);
	struct gm_image *image = NULL;
	struct gm_core_written written;
	const struct gm_core_options options = {0};
	assert_null(gm_image_open_pid(other.pid, &image));
	struct gm_error *error = gm_core_write(image, file_in_folder("core"), &options, &written);
	assert_non_null(error);
	char expected[64];
	snprintf(expected, sizeof(expected), "process %d traces it", tracer);
	assert_non_null(strstr(error->message, expected));
	gm_error_destroy(error);
	gm_image_close(image);
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	child_end(&other);
}

static volatile int gave_up;

static void give_up(void *unused, uint64_t done, uint64_t all)
{
	assert_true(done <= all);
	gave_up = 1;
}

static void touch_much(uint64_t *words)
{
	prepare(words);
	memset((void *)(uintptr_t)words[UNTOUCHED], 7, LARGE);
	memset((void *)(uintptr_t)words[SPARSE], 7, LARGE);
}

static void a_core_that_is_given_up_leaves_no_file_and_the_older_one_unchanged(void **state)
{
	struct child other = child_start(touch_much);
	const char *path = file_in_folder("older");
	FILE *stream = fopen(path, "w");
	assert_non_null(stream);
	fputs("old", stream);
	fclose(stream);
	struct gm_image *image = NULL;
	struct gm_core_written written;
	gave_up = 0;
	const struct gm_core_options options = {.progress = give_up, .cancel = &gave_up};
	assert_null(gm_image_open_pid(other.pid, &image));
	struct gm_error *error = gm_core_write(image, path, &options, &written);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "cancelled"));
	gm_error_destroy(error);
	gm_image_close(image);
	struct stat status;
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 3);
	assert_int_equal(access(file_in_folder("older.partial"), F_OK), -1);
	kill(other.pid, SIGTERM); /* it goes on */
	int how;
	assert_int_equal(waitpid(other.pid, &how, 0), other.pid);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
}

static void a_killed_writer_lets_the_process_continue(void **state)
{
	struct child other = child_start(touch_much);
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t writer = fork();
	if (writer == 0) {
		struct gm_image *image = NULL;
		struct gm_core_written written;
		const struct gm_core_options options = {0};
		gm_error_destroy(gm_image_open_pid(other.pid, &image));
		if (write(ends[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			gm_error_destroy(
			        gm_core_write(image, file_in_folder("killed"), &options, &written));
	}
	char byte;
	assert_int_equal(read(ends[0], &byte, 1), 1);
	usleep(30000);
	kill(writer, SIGKILL);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	kill(other.pid, SIGTERM);
	int how;
	assert_int_equal(waitpid(other.pid, &how, 0), other.pid);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
}

static void if_a_core_cannot_be_written_the_reason_is_reported(void **state)
{
	struct gm_image *image = NULL;
	struct gm_core_written written;
	const struct gm_core_options options = {0};
	assert_null(gm_image_open_pid(child.pid, &image));
	struct gm_error *error = gm_core_write(image, "/no/such/folder/core", &options, &written);
	assert_non_null(error);
	assert_int_equal(error->status, GM_TARGET);
	assert_non_null(strstr(error->message, "/no/such/folder/core: the core cannot be written"));
	gm_error_destroy(error);
	error = gm_core_write(image, "/dev/null", &options, &written);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "not a regular file"));
	gm_error_destroy(error);
	gm_image_close(image);
	assert_int_equal(field("status", "TracerPid:"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_core_has_touched_memory_and_the_rest_reads_as_zero),
	        cmocka_unit_test(a_core_has_the_shared_memory_that_the_process_touched),
	        cmocka_unit_test(device_memory_and_what_the_program_hides_is_not_saved),
	        cmocka_unit_test(a_core_has_threads_and_registers_the_chosen_one_first),
	        cmocka_unit_test(a_core_takes_no_more_disk_than_was_touched),
	        cmocka_unit_test(a_compressed_one_is_the_same_core),
	        cmocka_unit_test(the_process_does_not_grow),
	        cmocka_unit_test(the_process_continues_untraced),
	        cmocka_unit_test(a_stopped_process_stays_stopped),
	        cmocka_unit_test(a_process_that_we_trace_already_is_used_unchanged),
	        cmocka_unit_test(a_process_traced_by_another_is_refused_with_the_tracers_number),
	        cmocka_unit_test(
	                a_core_that_is_given_up_leaves_no_file_and_the_older_one_unchanged),
	        cmocka_unit_test(a_killed_writer_lets_the_process_continue),
	        cmocka_unit_test(if_a_core_cannot_be_written_the_reason_is_reported),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
