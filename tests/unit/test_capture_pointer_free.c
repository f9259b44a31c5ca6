/*
 * What has no address in it is not copied. Whoever reads it gets what was there when the copy was
 * made, or learns that it is lost.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/mman.h>

#include "child.h"
#include "image/pointer_free.h"
#include "image/capture.h"
#include "image/capture_buffer.h"
#include "image/image.h"
#include "image/stop.h"

enum { PAGE = 4096, UNIT = 64 << 10, SIZE = 16 << 20, AT = 100 * PAGE + 24, GONE = 40 * UNIT };
#define NUMBER UINT64_C(0x3f8000003f800000) /* two floats: no address */

static uint8_t *memory;

/* On SIGUSR1 the second half becomes another one; on SIGUSR2 some pages of the first go away. */
static void change(int signal)
{
	for (size_t at = SIZE / 2; signal == SIGUSR1 && at < SIZE; at += 8)
		*(uint64_t *)(memory + at) = NUMBER + 1;
	if (signal == SIGUSR2)
		madvise(memory + GONE + PAGE, PAGE, MADV_DONTNEED);
	*(volatile uint64_t *)memory = NUMBER + 2; /* last */
}

static void prepare(uint64_t *words)
{
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t at = 0; at < SIZE; at += 8)
		*(uint64_t *)(memory + at) = NUMBER;
	*(uint64_t *)(memory + AT) = (uint64_t)(uintptr_t)memory; /* where no sample is taken */
	signal(SIGUSR1, change);
	signal(SIGUSR2, change);
	words[0] = (uint64_t)(uintptr_t)memory;
}

struct fixture {
	struct child child;
	struct gm_image *image;
	struct gm_capture_buffer *buffer;
	uint64_t start;
};

static int open_child(void **state)
{
	struct fixture *fixture = *state = calloc(1, sizeof(*fixture));
	fixture->child = child_start(prepare);
	fixture->start = fixture->child.words[0];
	child_sleeps(fixture->child.pid, fixture->child.pid);
	return gm_image_open_pid(fixture->child.pid, &fixture->image) ? -1 : 0;
}

static int end(void **state)
{
	struct fixture *fixture = *state;
	gm_capture_buffer_destroy(fixture->buffer);
	gm_image_close(fixture->image);
	child_end(&fixture->child);
	free(fixture);
	return 0;
}

static void make_buffer(struct fixture *fixture, bool all)
{
	if (!gm_pointer_free_is_possible())
		skip();
	fixture->buffer = gm_capture_buffer_create(fixture->image, all);
	assert_non_null(fixture->buffer);
}

static void capture(struct fixture *fixture)
{
	struct gm_stop stop;
	uint64_t bytes;
	assert_null(gm_stop_begin(fixture->image, &stop));
	assert_true(gm_image_capture(fixture->image, fixture->buffer, &bytes));
	gm_stop_end(&stop);
	assert_true(bytes >= SIZE - PAGE);
}

static bool read_word(const struct fixture *fixture, uint64_t offset, uint64_t *ret_word)
{
	gm_image_invalidate(fixture->image);
	return gm_image_try_u64(fixture->image, fixture->start + offset, ret_word);
}

static void assert_word(const struct fixture *fixture, uint64_t offset, uint64_t expected)
{
	uint64_t word = 0;
	assert_true(read_word(fixture, offset, &word));
	assert_int_equal(word, expected);
}

static void change_child(const struct fixture *fixture, int signal)
{
	struct gm_image *image;
	uint64_t word = 0;
	assert_int_equal(kill(fixture->child.pid, signal), 0);
	assert_null(gm_image_open_pid(fixture->child.pid, &image));
	for (unsigned i = 0; word != NUMBER + 2; i++) {
		assert_true(i < 60000);
		usleep(1000);
		gm_image_invalidate(image);
		assert_true(gm_image_try_u64(image, fixture->start, &word));
	}
	gm_image_close(image);
}

static void pointer_free_pages_are_not_touched_pages(void **state)
{
	struct fixture *fixture = *state;
	struct gm_range ranges[SIZE / PAGE];
	make_buffer(fixture, false);
	capture(fixture);
	size_t count = gm_image_touched(
	        fixture->image, fixture->start, fixture->start + SIZE, ranges, SIZE / PAGE);
	uint64_t bytes = 0;
	bool found = false;
	for (size_t i = 0; i < count; i++) {
		bytes += ranges[i].end - ranges[i].start;
		found |= fixture->start + AT >= ranges[i].start &&
		         fixture->start + AT < ranges[i].end;
	}
	/* the unit of the address, and parts of units at both ends */
	assert_true(found);
	assert_true(bytes >= UNIT && bytes <= 3 * UNIT);
	assert_true(gm_image_pointer_free(fixture->image) >= SIZE - bytes);
	assert_word(fixture, AT, fixture->start);
}

static void pointer_free_memory_reads_as_at_the_capture(void **state)
{
	struct fixture *fixture = *state;
	make_buffer(fixture, false);
	capture(fixture);
	assert_word(fixture, SIZE / 4, NUMBER);
	assert_word(fixture, SIZE - 2 * UNIT, NUMBER); /* before it changes */
	change_child(fixture, SIGUSR1);
	assert_word(fixture, SIZE / 8, NUMBER);
	assert_word(fixture, SIZE - 2 * UNIT, NUMBER);
	assert_word(fixture, AT, fixture->start);
	gm_image_borrow_begin(fixture->image);
	assert_null(gm_image_borrowed_bytes(fixture->image, fixture->start + SIZE / 8 + UNIT, 8));
	gm_image_borrow_end(fixture->image);
	assert_false(gm_image_capture_lost(fixture->image));
}

static void pointer_free_memory_that_has_changed_is_reported_as_lost(void **state)
{
	struct fixture *fixture = *state;
	uint64_t word;
	make_buffer(fixture, false);
	capture(fixture);
	change_child(fixture, SIGUSR1);
	assert_false(gm_image_capture_lost(fixture->image));
	assert_false(read_word(fixture, SIZE / 2 + 4 * UNIT, &word));
	assert_true(gm_image_capture_lost(fixture->image));
	/* also of one read that begins before it */
	static uint8_t buffer[SIZE / 2];
	assert_false(gm_image_try_read(
	        fixture->image, fixture->start + SIZE / 4, buffer, sizeof(buffer)));
}

static void a_complete_copy_has_pointer_free_memory_too(void **state)
{
	struct fixture *fixture = *state;
	make_buffer(fixture, true);
	capture(fixture);
	change_child(fixture, SIGUSR1);
	assert_int_equal(gm_image_pointer_free(fixture->image), 0);
	for (uint64_t at = 0; at < SIZE; at += UNIT)
		assert_word(fixture, at, NUMBER);
	assert_false(gm_image_capture_lost(fixture->image));
}

static void pages_that_went_away_are_zero(void **state)
{
	struct fixture *fixture = *state;
	make_buffer(fixture, false);
	change_child(fixture, SIGUSR2);
	capture(fixture);
	assert_word(fixture, GONE, NUMBER);
	assert_word(fixture, GONE + PAGE, 0);
	assert_word(fixture, GONE + 2 * PAGE, NUMBER);
	child_end(&fixture->child);
	assert_word(fixture, GONE + 2 * PAGE, NUMBER); /* of a unit that is not whole: copied */
	assert_word(fixture, GONE + PAGE, 0);
}

#define WITH_CHILD(test) cmocka_unit_test_setup_teardown(test, open_child, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        WITH_CHILD(pointer_free_pages_are_not_touched_pages),
	        WITH_CHILD(pointer_free_memory_reads_as_at_the_capture),
	        WITH_CHILD(pointer_free_memory_that_has_changed_is_reported_as_lost),
	        WITH_CHILD(a_complete_copy_has_pointer_free_memory_too),
	        WITH_CHILD(pages_that_went_away_are_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
