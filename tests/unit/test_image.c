#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "child.h"
#include "image/image.h"
#include "image/maps.h"

enum { PAGE = 4096 };

/* Three readable pages, then one that is not mapped; word i of them is i. Then a device's
 * mapping. */
static void known_memory(uint64_t *words)
{
	uint64_t *pages =
	        mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (uint64_t i = 0; i < 3 * PAGE / 8; i++)
		pages[i] = i;
	memcpy(pages + 8, "a string", 9);
	memset((char *)pages + 3 * PAGE - 16, 'x', 16);
	int device = memfd_create("gpumem-sim-device0", 0);
	if (device < 0 || ftruncate(device, PAGE) != 0)
		_exit(1);
	words[0] = (uint64_t)(uintptr_t)pages;
	words[1] = (uint64_t)(uintptr_t)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, device, 0);
	words[2] = (uint64_t)(uintptr_t)mmap(
	        NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Last, so that nothing else is mapped into the hole. */
	munmap(pages + 3 * PAGE / 8, PAGE);
}

struct fixture {
	struct child child;
	struct gm_image *image;
	uint64_t pages;
};

static int open_child(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	fixture->child = child_start(known_memory);
	fixture->pages = fixture->child.words[0];
	*state = fixture;
	return gm_image_open_pid(fixture->child.pid, &fixture->image) != NULL;
}

static int close_child(void **state)
{
	struct fixture *fixture = *state;
	gm_image_close(fixture->image);
	child_end(&fixture->child);
	free(fixture);
	return 0;
}

static void assert_message(struct gm_error *error, enum gm_status status, const char *part)
{
	assert_non_null(error);
	assert_int_equal(error->status, status);
	if (!strstr(error->message, part))
		fail_msg("'%s' does not say '%s'", error->message, part);
	gm_error_destroy(error);
}

static void reads_known_words_small_and_large(void **state)
{
	struct fixture *fixture = *state;
	uint64_t word;
	assert_null(gm_image_read(fixture->image, fixture->pages, &word, 8));
	assert_int_equal(word, 0);
	/* across a page's end, unaligned */
	assert_true(gm_image_try_u64(fixture->image, fixture->pages + PAGE - 8, &word));
	assert_int_equal(word, PAGE / 8 - 1);
	uint32_t half;
	assert_true(gm_image_try_u32(fixture->image, fixture->pages + PAGE, &half));
	assert_int_equal(half, PAGE / 8);
	static uint64_t all[3 * PAGE / 8];
	assert_null(gm_image_read(fixture->image, fixture->pages, all, sizeof(all)));
	assert_int_equal(all[1000], 1000);
}

static void a_read_across_a_mappings_end_names_the_first_bad_address(void **state)
{
	struct fixture *fixture = *state;
	char bytes[64];
	uint64_t end = fixture->pages + 3 * PAGE;
	struct gm_error *error = gm_image_read(fixture->image, end - 32, bytes, 64);
	char expected[64];
	snprintf(expected, sizeof(expected), "address 0x%jx: not mapped", (uintmax_t)end);
	assert_message(error, GM_TARGET, expected);
	assert_false(gm_image_try_read(fixture->image, end - 1, bytes, 2));
	assert_true(gm_image_try_read(fixture->image, end - 1, bytes, 1));
}

static void an_unmapped_small_and_the_last_address_are_refused(void **state)
{
	struct fixture *fixture = *state;
	char bytes[64];
	assert_message(
	        gm_image_read(fixture->image, 0, bytes, 8), GM_TARGET, "address 0x0: not mapped");
	assert_message(
	        gm_image_read(fixture->image, UINT64_MAX - 3, bytes, 8), GM_TARGET, "not mapped");
	assert_int_equal(gm_image_read_some(fixture->image, UINT64_MAX, bytes, 64), 0);
}

static void memory_without_permission_says_so(void **state)
{
	struct fixture *fixture = *state;
	char byte;
	assert_message(gm_image_read(fixture->image, fixture->child.words[2], &byte, 1), GM_TARGET,
	        "without read permission");
}

static void read_some_stops_at_the_mappings_end(void **state)
{
	struct fixture *fixture = *state;
	static char bytes[8 * PAGE];
	assert_int_equal(
	        gm_image_read_some(fixture->image, fixture->pages + 100, bytes, sizeof(bytes)),
	        3 * PAGE - 100);
	assert_int_equal(
	        gm_image_read_some(fixture->image, fixture->pages + 3 * PAGE, bytes, 1), 0);
}

static void read_many_distinguishes_the_failed_ones(void **state)
{
	struct fixture *fixture = *state;
	enum { COUNT = 3000 };
	static uint64_t words[COUNT];
	static struct gm_read reads[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		reads[i] =
		        (struct gm_read){fixture->pages + i % 1000 * 8, &words[i], 8, i % 3 == 0};
		if (i % 7 == 0)
			reads[i].address = fixture->pages + 3 * PAGE + i; /* not mapped */
		if (i % 7 == 1)
			reads[i].address = fixture->pages + 3 * PAGE - 4; /* half of it */
	}
	gm_image_read_many(fixture->image, reads, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(reads[i].failed, i % 7 <= 1);
		if (i % 7 > 1 && i % 1000 > 16)
			assert_int_equal(words[i], i % 1000);
	}
}

static void strings_end_at_their_nul_and_are_bounded(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_free_ char *string = NULL;
	assert_null(gm_image_read_string(fixture->image, fixture->pages + 64, 100, &string));
	assert_string_equal(string, "a string");
	char *none = NULL;
	assert_message(gm_image_read_string(fixture->image, fixture->pages + 64, 8, &none),
	        GM_TARGET, "longer than 8 bytes");
	assert_message(
	        gm_image_read_string(fixture->image, fixture->pages + 3 * PAGE - 16, 100, &none),
	        GM_TARGET, "not mapped");
	assert_null(none);
}

static void the_cache_is_forgotten_on_invalidate_only(void **state)
{
	uint64_t *shared =
	        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct child child = child_start(known_memory); /* inherits the shared page */
	struct gm_image *image = NULL;
	assert_null(gm_image_open_pid(child.pid, &image));
	uint64_t word;
	shared[0] = 1;
	assert_true(gm_image_try_u64(image, (uintptr_t)shared, &word));
	shared[0] = 2;
	assert_true(gm_image_try_u64(image, (uintptr_t)shared, &word));
	assert_int_equal(word, 1);
	gm_image_invalidate(image);
	assert_true(gm_image_try_u64(image, (uintptr_t)shared, &word));
	assert_int_equal(word, 2);
	gm_image_close(image);
	child_end(&child);
	munmap(shared, PAGE);
}

static void mappings_are_sorted_and_found_by_address(void **state)
{
	struct fixture *fixture = *state;
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(fixture->image, &count);
	assert_true(count > 5);
	for (size_t i = 1; i < count; i++)
		assert_true(mappings[i].start >= mappings[i - 1].end);
	for (size_t i = 0; i < count; i++) {
		assert_ptr_equal(
		        gm_image_find_mapping(fixture->image, mappings[i].start), &mappings[i]);
		assert_ptr_equal(
		        gm_image_find_mapping(fixture->image, mappings[i].end - 1), &mappings[i]);
	}
	assert_null(gm_image_find_mapping(fixture->image, 0));
	assert_null(gm_image_find_mapping(fixture->image, UINT64_MAX));
	assert_null(gm_image_find_mapping(fixture->image, fixture->pages + 3 * PAGE));
}

static void simulated_device_memory_is_marked(void **state)
{
	struct fixture *fixture = *state;
	const struct gm_mapping *device =
	        gm_image_find_mapping(fixture->image, fixture->child.words[1]);
	assert_non_null(device);
	assert_true(device->flags & GM_MAPPING_DEVICE);
	assert_true(device->flags & GM_MAPPING_SHARED);
	assert_false(
	        gm_image_find_mapping(fixture->image, fixture->pages)->flags & GM_MAPPING_DEVICE);
}

static void a_process_that_was_killed_has_ended(void **state)
{
	struct fixture *fixture = *state;
	child_end(&fixture->child);
	char bytes[64];
	assert_message(
	        gm_image_read(fixture->image, fixture->pages, bytes, 8), GM_TARGET, "it has ended");
	assert_message(gm_image_refresh(fixture->image), GM_TARGET, "it has ended");
	pid_t *threads = NULL;
	size_t count = 0;
	assert_message(
	        gm_image_threads(fixture->image, &threads, &count), GM_TARGET, "it has ended");
	struct gm_registers registers;
	assert_message(gm_image_registers(fixture->image, getpid() + 1000000, &registers),
	        GM_TARGET, "it has ended");
	struct gm_read read = {fixture->pages, bytes, 8, false};
	gm_image_read_many(fixture->image, &read, 1);
	assert_true(read.failed);
}

static void a_zombie_is_reported_as_ended(void **state)
{
	struct child child = child_start(known_memory);
	kill(child.pid, SIGKILL);
	siginfo_t info;
	waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT);
	struct gm_image *image = NULL;
	assert_message(gm_image_open_pid(child.pid, &image), GM_TARGET,
	        "it has ended and waits for its parent");
	child_end(&child);
}

static void a_process_that_does_not_exist_is_named(void **state)
{
	struct gm_image *image = NULL;
	assert_message(gm_image_open_pid(0x3fffffff, &image), GM_TARGET,
	        "process 1073741823: no such process");
	assert_message(gm_image_open_pid(0, &image), GM_TARGET, "no such process");
	assert_message(gm_image_open_pid(-5, &image), GM_TARGET, "no such process");
	assert_null(image);
}

/* Runs as another user, in a child that drops its privileges; its exit status is the result. */
static void a_process_of_another_user_is_refused(void **state)
{
	struct fixture *fixture = *state;
	if (geteuid() != 0) {
		print_message("skipped: needs root to become another user\n");
		skip();
	}
	pid_t other = fork();
	if (other == 0) {
		if (setuid(65534) != 0)
			_exit(2);
		struct gm_image *image = NULL;
		struct gm_error *error = gm_image_open_pid(fixture->child.pid, &image);
		_exit(error && error->status == GM_TARGET && strstr(error->message, "refused") &&
		                        strstr(error->message, "run as the same user")
		                ? 0
		                : 1);
	}
	int status;
	waitpid(other, &status, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void *__attribute__((noreturn)) wait_forever(void *argument)
{
	*(pid_t *)argument = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
}

static void two_threads(uint64_t *words)
{
	static volatile pid_t second;
	pthread_t thread;
	pthread_create(&thread, NULL, wait_forever, (void *)&second);
	while (!second)
		usleep(1000);
	words[0] = (uint64_t)second;
}

static void threads_are_listed(void **state)
{
	struct child child = child_start(two_threads);
	struct gm_image *image = NULL;
	assert_null(gm_image_open_pid(child.pid, &image));
	_cleanup_free_ pid_t *threads = NULL;
	size_t count = 0;
	assert_null(gm_image_threads(image, &threads, &count));
	assert_int_equal(count, 2);
	assert_int_equal(threads[0] + threads[1], child.pid + (pid_t)child.words[0]);
	gm_image_close(image);
	child_end(&child);
}

static void registers_are_read_by_the_tracer_only(void **state)
{
	struct fixture *fixture = *state;
	struct gm_registers registers = {0};
	assert_message(gm_image_registers(fixture->image, fixture->child.pid, &registers),
	        GM_TARGET, "only the debugger");
	child_stop(fixture->child.pid);
	assert_null(gm_image_registers(fixture->image, fixture->child.pid, &registers));
	const struct gm_mapping *code =
	        gm_image_find_mapping(fixture->image, registers.value[GM_RIP]);
	const struct gm_mapping *stack =
	        gm_image_find_mapping(fixture->image, registers.value[GM_RSP]);
	assert_non_null(code);
	assert_true(code->flags & GM_MAPPING_EXEC);
	assert_non_null(stack);
	assert_string_equal(stack->path, "[stack]");
}

/* What a container's filter does: the system call is refused, /proc/PID/mem is not. */
static bool forbid_process_vm_readv(void)
{
	struct sock_filter filter[] = {
	        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* The exit status is the result; 2 means that this kernel has no filters. */
static int read_under_filter(const struct fixture *fixture)
{
	if (!forbid_process_vm_readv())
		return 2;
	struct gm_image *image = NULL;
	uint64_t words[2] = {0}, bad;
	if (gm_image_open_pid(fixture->child.pid, &image))
		return 3;
	struct gm_read reads[3] = {{fixture->pages + 160, &words[0], 8, true},
	        {fixture->pages + 3 * PAGE, &bad, 8, false},
	        {fixture->pages + 168, &words[1], 8, true}};
	gm_image_read_many(image, reads, 3);
	if (reads[0].failed || !reads[1].failed || reads[2].failed || words[0] != 20 ||
	        words[1] != 21)
		return 4;
	struct gm_error *error = gm_image_read(image, fixture->pages + 3 * PAGE - 4, words, 8);
	if (!error || !strstr(error->message, "not mapped"))
		return 5;
	kill(fixture->child.pid, SIGKILL);
	do { /* until the process has ended; cached memory must not answer for it */
		usleep(1000);
		gm_image_invalidate(image);
		error = gm_image_read(image, fixture->pages + PAGE, words, 8);
	} while (!error);
	return error && strstr(error->message, "ended") ? 0 : 6;
}

static void where_process_vm_readv_is_forbidden_proc_mem_is_read(void **state)
{
	struct fixture *fixture = *state;
	pid_t reader = fork();
	if (reader == 0)
		_exit(read_under_filter(fixture));
	int status;
	waitpid(reader, &status, 0);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2) {
		print_message("skipped: no system call filters here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void in_another_root(uint64_t *words)
{
	words[0] = chroot("/usr") == 0 && chdir("/") == 0;
}

/* As the kernel names mappings to us: from our own root, as long as both see the same mounts. */
static void paths_of_another_root_go_through_proc(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_free_ char *same = NULL, *other = NULL, *outside = NULL;
	assert_null(gm_image_file_path(fixture->image, "/bin/sh", &same));
	assert_string_equal(same, "/bin/sh");
	struct child child = child_start(in_another_root);
	if (!child.words[0]) {
		child_end(&child);
		print_message("skipped: needs root to change the root\n");
		skip();
	}
	struct gm_image *image = NULL;
	assert_null(gm_image_open_pid(child.pid, &image));
	assert_null(gm_image_file_path(image, "/usr/bin/env", &other));
	char expected[64];
	snprintf(expected, sizeof(expected), "/proc/%d/root/bin/env", child.pid);
	assert_string_equal(other, expected);
	assert_int_equal(access(other, R_OK), 0);
	/* mapped before the root was changed */
	assert_null(gm_image_file_path(image, "/etc/passwd", &outside));
	assert_string_equal(outside, "/etc/passwd");
	gm_image_close(image);
	child_end(&child);
}

static void torn_and_senseless_lines_of_maps_are_left_out(void **state)
{
	static const char text[] =
	        "00400000-00401000 r-xp 00000000 08:01 17   /bin/a b (deleted)\n"
	        "nonsense\n"
	        "00400800-00402000 rw-p 00000000 00:00 0 \n" /* overlaps: read while changing */
	        "00500000-00400000 rw-p 00000000 00:00 0 \n"
	        "fffffffffffffffffffffff-1 rw-p 0 0:0 0\n"
	        "00600000-00601000 rw-s 00002000 00:05 99   /memfd:gpumem-sim-device0 (deleted)\n"
	        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]";
	struct gm_maps maps;
	assert_null(gm_maps_parse(strdup(text), sizeof(text) - 1, &maps));
	assert_int_equal(maps.count, 3);
	assert_string_equal(maps.items[0].path, "/bin/a b (deleted)");
	assert_int_equal(maps.items[0].inode, 17);
	assert_int_equal(maps.items[0].flags, GM_MAPPING_READ | GM_MAPPING_EXEC);
	assert_int_equal(maps.items[1].file_offset, 0x2000);
	assert_true(maps.items[1].flags & GM_MAPPING_DEVICE);
	assert_string_equal(maps.items[2].path, "[vsyscall]");
	gm_maps_deinit(&maps);
}

int main(void)
{
#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, open_child, close_child)
	const struct CMUnitTest tests[] = {
	        WITH_CHILD(reads_known_words_small_and_large),
	        WITH_CHILD(a_read_across_a_mappings_end_names_the_first_bad_address),
	        WITH_CHILD(an_unmapped_small_and_the_last_address_are_refused),
	        WITH_CHILD(memory_without_permission_says_so),
	        WITH_CHILD(read_some_stops_at_the_mappings_end),
	        WITH_CHILD(read_many_distinguishes_the_failed_ones),
	        WITH_CHILD(strings_end_at_their_nul_and_are_bounded),
	        cmocka_unit_test(the_cache_is_forgotten_on_invalidate_only),
	        WITH_CHILD(mappings_are_sorted_and_found_by_address),
	        WITH_CHILD(simulated_device_memory_is_marked),
	        WITH_CHILD(a_process_that_was_killed_has_ended),
	        cmocka_unit_test(a_zombie_is_reported_as_ended),
	        cmocka_unit_test(a_process_that_does_not_exist_is_named),
	        WITH_CHILD(a_process_of_another_user_is_refused),
	        cmocka_unit_test(threads_are_listed),
	        WITH_CHILD(registers_are_read_by_the_tracer_only),
	        WITH_CHILD(where_process_vm_readv_is_forbidden_proc_mem_is_read),
	        WITH_CHILD(paths_of_another_root_go_through_proc),
	        cmocka_unit_test(torn_and_senseless_lines_of_maps_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
