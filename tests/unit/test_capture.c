/* A copy of a stopped process: reads of it show the moment at which it was made, whatever the
 * process does later. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "child.h"
#include "image/capture.h"
#include "image/capture_buffer.h"
#include "image/image.h"
#include "image/stop.h"

enum { PAGE = 4096, PAGES = 300 };

static uint64_t *memory, *of_file;
static void *goes_away;

/* On SIGUSR1 the child changes all of its memory. */
static void change(int signal)
{
	for (size_t page = 0; page < PAGES; page++)
		memory[page * PAGE / 8] = 7;
	of_file[0] = 7;
	munmap(goes_away, PAGE);
	*(volatile uint64_t *)(memory + 1) = 8; /* last */
}

static void prepare(uint64_t *words)
{
	int protection = PROT_READ | PROT_WRITE, file = memfd_create("some-file", 0);
	memory = mmap(NULL, PAGES * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	goes_away = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t page = 0; page < PAGES; page += 2) /* every second page is never touched */
		memory[page * PAGE / 8] = page + 1000;
	*(uint64_t *)goes_away = 5;
	if (file < 0 || ftruncate(file, 2 * PAGE) != 0 ||
	        pwrite(file, "of the file", 12, PAGE) != 12)
		_exit(1);
	of_file = mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE, file, 0);
	of_file[0] = 9;
	signal(SIGUSR1, change);
	words[0] = (uint64_t)(uintptr_t)memory;
	words[1] = (uint64_t)(uintptr_t)of_file;
	words[2] = (uint64_t)(uintptr_t)goes_away;
}

struct fixture {
	struct child child;
	struct gm_image *image;
	uint64_t bytes;
};

static int open_child(struct fixture *fixture)
{
	fixture->child = child_start(prepare);
	child_sleeps(fixture->child.pid, fixture->child.pid);
	return gm_image_open_pid(fixture->child.pid, &fixture->image) ? -1 : 0;
}

static int capture(struct fixture *fixture, struct gm_capture_buffer *buffer)
{
	struct gm_stop stop;
	if (gm_stop_begin(fixture->image, &stop))
		return -1;
	bool captured = gm_image_capture(fixture->image, buffer, &fixture->bytes);
	gm_stop_end(&stop);
	gm_capture_buffer_destroy(buffer);
	return captured ? 0 : -1;
}

static int open_and_capture(void **state)
{
	struct fixture *fixture = *state = calloc(1, sizeof(*fixture));
	return open_child(fixture) ? -1 : capture(fixture, NULL);
}

static int open_and_capture_to_a_buffer(void **state)
{
	struct fixture *fixture = *state = calloc(1, sizeof(*fixture));
	if (open_child(fixture))
		return -1;
	struct gm_capture_buffer *buffer = gm_capture_buffer_create(fixture->image, false);
	return buffer ? capture(fixture, buffer) : -1;
}

/* The buffer is made before the child changes its memory and removes one mapping. */
static int capture_later(void **state)
{
	struct fixture *fixture = *state = calloc(1, sizeof(*fixture));
	if (open_child(fixture))
		return -1;
	struct gm_capture_buffer *buffer = gm_capture_buffer_create(fixture->image, false);
	kill(fixture->child.pid, SIGUSR1);
	for (uint64_t word = 0; buffer && word != 8; usleep(1000))
		if (!gm_image_try_u64(fixture->image, fixture->child.words[0] + 8, &word))
			return -1;
		else
			gm_image_invalidate(fixture->image);
	return buffer && !gm_image_refresh(fixture->image) ? capture(fixture, buffer) : -1;
}

static int end(void **state)
{
	struct fixture *fixture = *state;
	gm_image_close(fixture->image);
	child_end(&fixture->child);
	free(fixture);
	return 0;
}

static uint64_t read_word(struct gm_image *image, uint64_t address)
{
	uint64_t word = UINT64_MAX;
	assert_true(gm_image_try_u64(image, address, &word));
	return word;
}

/* As the process has it now, without the image. */
static uint64_t word_now(const struct fixture *fixture, uint64_t address)
{
	struct gm_image *image;
	assert_null(gm_image_open_pid(fixture->child.pid, &image));
	uint64_t word = read_word(image, address);
	gm_image_close(image);
	return word;
}

static void change_child(const struct fixture *fixture)
{
	kill(fixture->child.pid, SIGUSR1);
	for (unsigned i = 0; word_now(fixture, fixture->child.words[0] + 8) != 8; i++) {
		assert_true(i < 60000);
		usleep(1000);
	}
}

static void check_moment(struct fixture *fixture)
{
	const uint64_t *words = fixture->child.words;
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(read_word(fixture->image, words[0] + page * PAGE),
		        page % 2 == 0 ? page + 1000 : 0);
	assert_int_equal(read_word(fixture->image, words[1]), 9);
	assert_int_equal(read_word(fixture->image, words[2]), 5);
	char text[12];
	assert_true(gm_image_try_read(fixture->image, words[1] + PAGE, text, sizeof(text)));
	assert_string_equal(text, "of the file");
}

static void reads_are_of_the_moment_of_the_capture(void **state)
{
	struct fixture *fixture = *state;
	assert_true(fixture->bytes >= PAGES / 2 * PAGE);
	check_moment(fixture);
	change_child(fixture);
	check_moment(fixture);
	gm_image_invalidate(fixture->image);
	assert_null(gm_image_refresh(fixture->image));
	check_moment(fixture);
}

static void borrowed_bytes_are_of_the_moment_of_the_capture(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t *words = fixture->child.words;
	change_child(fixture);
	gm_image_borrow_begin(fixture->image);
	check_moment(fixture);
	const uint8_t *bytes = gm_image_borrowed_bytes(fixture->image, words[0], PAGES * PAGE);
	assert_non_null(bytes);
	assert_memory_equal(bytes, &(uint64_t){1000}, 8);
	assert_null(
	        gm_image_borrowed_bytes(fixture->image, words[1] + PAGE, 8)); /* the file's own */
	gm_image_borrow_end(fixture->image);
}

static void touched_pages_are_those_at_the_capture(void **state)
{
	struct fixture *fixture = *state;
	struct gm_range ranges[PAGES];
	uint64_t start = fixture->child.words[0];
	change_child(fixture);
	size_t count = gm_image_touched(fixture->image, start, start + PAGES * PAGE, ranges, PAGES);
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += ranges[i].end - ranges[i].start;
	/* the kernel may use a huge page instead of a small one */
	assert_true(bytes == PAGES / 2 * PAGE || bytes > PAGES / 2 * PAGE);
	assert_int_equal(ranges[0].start, start);
}

static void threads_and_registers_are_kept(void **state)
{
	struct fixture *fixture = *state;
	struct gm_registers registers;
	pid_t *threads;
	size_t count;
	child_end(&fixture->child);
	assert_null(gm_image_threads(fixture->image, &threads, &count));
	assert_int_equal(count, 1);
	assert_null(gm_image_registers(fixture->image, threads[0], &registers));
	assert_non_null(gm_image_find_mapping(fixture->image, registers.value[GM_RSP]));
	assert_null(gm_image_check_there(fixture->image));
	free(threads);
}

/* Pages and mappings that appeared or disappeared after the buffer was made. */
static void pages_and_mappings_changed_after_the_buffer_was_made_are_read_correctly(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t *words = fixture->child.words;
	uint64_t word;
	child_end(&fixture->child);
	for (uint64_t page = 1; page < PAGES; page++)
		assert_int_equal(read_word(fixture->image, words[0] + page * PAGE), 7);
	assert_int_equal(read_word(fixture->image, words[1]), 7);
	assert_false(gm_image_try_u64(fixture->image, words[2], &word));
}

static void afterwards_the_process_is_read_again(void **state)
{
	struct fixture *fixture = *state;
	change_child(fixture);
	gm_image_capture_end(fixture->image);
	assert_null(gm_image_refresh(fixture->image));
	assert_int_equal(read_word(fixture->image, fixture->child.words[0]), 7);
	assert_int_equal(read_word(fixture->image, fixture->child.words[1]), 7);
	uint64_t word;
	assert_false(gm_image_try_u64(fixture->image, fixture->child.words[2], &word));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(
	                reads_are_of_the_moment_of_the_capture, open_and_capture, end),
	        cmocka_unit_test_setup_teardown(
	                borrowed_bytes_are_of_the_moment_of_the_capture, open_and_capture, end),
	        cmocka_unit_test_setup_teardown(
	                touched_pages_are_those_at_the_capture, open_and_capture, end),
	        cmocka_unit_test_setup_teardown(
	                threads_and_registers_are_kept, open_and_capture, end),
	        cmocka_unit_test_setup_teardown(
	                afterwards_the_process_is_read_again, open_and_capture, end),
	        cmocka_unit_test_setup_teardown(
	                reads_are_of_the_moment_of_the_capture, open_and_capture_to_a_buffer, end),
	        cmocka_unit_test_setup_teardown(
	                touched_pages_are_those_at_the_capture, open_and_capture_to_a_buffer, end),
	        cmocka_unit_test_setup_teardown(
	                pages_and_mappings_changed_after_the_buffer_was_made_are_read_correctly,
	                capture_later, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
