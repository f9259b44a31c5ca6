/* What has no address in it, beside a plain look at each word; a change of any byte makes another
 * mark. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "image/pointer_free.h"

enum { SIZE = 8192, WORDS = SIZE / 8 };
static const uint64_t low = UINT64_C(0x400000);

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static bool plainly_pointer_free(const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] >= low && words[i] < UINT64_C(1) << 47)
			return false;
	return true;
}

/* Mostly what is near a bound. */
static uint64_t word(uint64_t *state)
{
	const uint64_t near[] = {0, low, UINT64_C(1) << 47, UINT64_C(1) << 63, UINT64_MAX};
	uint64_t random = next_random(state);
	return random % 4 == 0 ? random : near[random % 5] + (random >> 40) % 3 - 1;
}

static void test_pointer_free_memory_is_what_a_plain_search_finds(void **unused)
{
	alignas(64) uint64_t words[WORDS];
	struct gm_pointer_free_mark mark;
	uint64_t state = 7;
	size_t pointer_free = 0, all = 20000;
	if (!gm_pointer_free_is_possible())
		skip();
	for (size_t round = 0; round < all; round++) {
		size_t count = 8 * (1 + next_random(&state) % 64);
		for (size_t i = 0; i < count; i++)
			words[i] = round % 2 ? UINT64_MAX - i : 5;
		for (size_t i = 0; i < 1 + round % 3; i++)
			words[next_random(&state) % count] = word(&state);
		bool found = gm_pointer_free_look(words, count * 8, low, &mark);
		assert_int_equal(found, plainly_pointer_free(words, count));
		pointer_free += found;
	}
	assert_true(pointer_free > all / 10 && pointer_free < all - all / 10);
}

static void test_a_change_is_seen(void **unused)
{
	alignas(64) uint8_t bytes[SIZE];
	struct gm_pointer_free_mark first, mark;
	if (!gm_pointer_free_is_possible())
		skip();
	memset(bytes, 0xee, sizeof(bytes));
	assert_true(gm_pointer_free_look(bytes, SIZE, low, &first));
	for (size_t at = 0; at < SIZE; at++) {
		bytes[at] ^= 1;
		assert_true(gm_pointer_free_look(bytes, SIZE, low, &mark));
		assert_memory_not_equal(&first, &mark, sizeof(mark));
		/* and two changes do not make up for each other */
		bytes[(at + 64) % SIZE] ^= 1;
		assert_true(gm_pointer_free_look(bytes, SIZE, low, &mark));
		assert_memory_not_equal(&first, &mark, sizeof(mark));
		bytes[(at + 64) % SIZE] ^= 1;
		bytes[at] ^= 1;
	}
	assert_true(gm_pointer_free_look(bytes, SIZE, low, &mark));
	assert_memory_equal(&first, &mark, sizeof(mark));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_pointer_free_memory_is_what_a_plain_search_finds),
	        cmocka_unit_test(test_a_change_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
