#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "holders/heap/thread_record.h"

enum { STACK = 512 << 10, PAGE = 4096, RECORD_WORDS = 512, BLOCK = 200 };

/* What is asked of a thread, and what the C library itself says of its stack. */
struct asked {
	struct gm_image *image;
	bool by_pointer, found;
	struct gm_stack_range range;
	uint64_t self, start, size, guard;
};

static struct gm_registers registers_of(uint64_t thread_pointer, const void *stack_pointer)
{
	struct gm_registers registers = {.thread_pointer = thread_pointer};
	registers.value[GM_RSP] = (uint64_t)(uintptr_t)stack_pointer;
	return registers;
}

static void *ask(void *context)
{
	struct asked *asked = context;
	pthread_attr_t attributes;
	void *start = NULL;
	size_t size = 0, guard = 0;
	asked->self = (uint64_t)pthread_self();
	if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
		pthread_attr_getstack(&attributes, &start, &size);
		pthread_attr_getguardsize(&attributes, &guard);
		pthread_attr_destroy(&attributes);
	}
	asked->start = (uint64_t)(uintptr_t)start;
	asked->size = size;
	asked->guard = guard;
	struct gm_registers registers = registers_of(asked->by_pointer ? asked->self : 0, &size);
	asked->found =
	        gm_thread_record_find(asked->image, &registers, asked->start + size, &asked->range);
	return NULL;
}

static struct asked ask_on(const pthread_attr_t *attributes, bool by_pointer)
{
	struct asked asked = {.by_pointer = by_pointer};
	pthread_t thread;
	assert_null(gm_image_open_pid(getpid(), &asked.image));
	assert_int_equal(pthread_create(&thread, attributes, ask, &asked), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	gm_image_close(asked.image);
	return asked;
}

static void assert_right(const struct asked *asked)
{
	assert_true(asked->found);
	assert_int_equal(asked->range.record, asked->self);
	assert_int_equal(asked->range.end, asked->start + asked->size);
	/* before 2.42 the C library leaves the guard area out of the stack that it tells */
	assert_true(asked->range.start == asked->start ||
	            asked->range.start == asked->start + asked->guard);
}

static void a_threads_stack_is_what_the_c_library_says(void **state)
{
	(void)state;
	const size_t guards[] = {0, PAGE, 1 << 20};
	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++) {
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, STACK + guards[i]);
		pthread_attr_setguardsize(&attributes, guards[i]);
		for (int by_pointer = 0; by_pointer < 2; by_pointer++) {
			struct asked asked = ask_on(&attributes, by_pointer);
			assert_right(&asked);
		}
		pthread_attr_destroy(&attributes);
	}
}

static void a_stack_may_be_anywhere(void **state)
{
	(void)state;
	static _Alignas(PAGE) char memory[STACK + 2 * PAGE];
	const size_t odd[] = {0, 16, 512, PAGE};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		assert_int_equal(pthread_attr_setstack(&attributes, memory + odd[i], STACK), 0);
		for (int by_pointer = 0; by_pointer < 2; by_pointer++) {
			struct asked asked = ask_on(&attributes, by_pointer);
			assert_right(&asked);
			assert_int_equal(asked.range.start, (uint64_t)(uintptr_t)(memory + odd[i]));
		}
		pthread_attr_destroy(&attributes);
	}
}

static void the_first_thread_has_no_recorded_stack(void **state)
{
	(void)state;
	struct asked asked = {.by_pointer = true};
	assert_null(gm_image_open_pid(getpid(), &asked.image));
	ask(&asked);
	assert_false(asked.found);
	gm_image_close(asked.image);
}

/* An image of its own each time: it keeps what it has read. */
static bool is_found(uint64_t thread_pointer)
{
	struct gm_image *image;
	struct gm_stack_range range;
	struct gm_registers registers = registers_of(thread_pointer, &range);
	assert_null(gm_image_open_pid(getpid(), &image));
	bool found = gm_thread_record_find(image, &registers, thread_pointer, &range);
	gm_image_close(image);
	return found;
}

/* Words of a target that say what cannot be are not believed. */
static void a_record_that_cannot_be_is_refused(void **state)
{
	(void)state;
	static _Alignas(64) uint64_t record[RECORD_WORDS];
	uint64_t at = (uint64_t)(uintptr_t)record;
	const struct {
		uint64_t block, size, guard;
		bool is_right;
	} cases[] = {
	        {at - STACK, STACK + PAGE, 0, true},
	        {at - STACK, STACK + PAGE, PAGE, true},
	        {at - STACK, STACK, 0, false}, /* ends before the record does */
	        {at - STACK, STACK + 16 * PAGE, 0, false},
	        {at - STACK, STACK + PAGE, 8, false},
	        {at - STACK, STACK + PAGE, STACK, false},
	        {at - STACK, STACK + PAGE, UINT64_MAX - PAGE + 1, false},
	        {at + PAGE, PAGE, 0, false},
	        {16, at, 0, false},
	        {UINT64_MAX - PAGE, PAGE, 0, false},
	        {at - STACK, UINT64_MAX, 0, false},
	        {0, 0, 0, false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(record, 0, sizeof(record));
		record[0] = record[2] = at;
		record[BLOCK] = cases[i].block;
		record[BLOCK + 1] = cases[i].size;
		record[BLOCK + 2] = cases[i].guard;
		assert_int_equal(is_found(at), cases[i].is_right);
		record[2] = at + 8; /* not its own address */
		assert_false(is_found(at));
	}
	const uint64_t nowhere[] = {1, 8, at + 4, UINT64_MAX - 7, UINT64_C(1) << 63};
	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++)
		assert_false(is_found(nowhere[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_threads_stack_is_what_the_c_library_says),
	        cmocka_unit_test(a_stack_may_be_anywhere),
	        cmocka_unit_test(the_first_thread_has_no_recorded_stack),
	        cmocka_unit_test(a_record_that_cannot_be_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
