/* The filter by which the agent tells at which events a debugger may have to stop: sets of truth
 * values, beside every truth value that is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/stop_filter.h"

/* 0 false, 1 true, 2 unknown: bit of the set */
static unsigned kleene_and(unsigned a, unsigned b)
{
	return a == 0 || b == 0 ? 0 : a == 2 || b == 2 ? 2 : 1;
}

static unsigned kleene_or(unsigned a, unsigned b)
{
	return a == 1 || b == 1 ? 1 : a == 2 || b == 2 ? 2 : 0;
}

static unsigned kleene_not(unsigned a)
{
	return a == 2 ? 2 : 1 - a;
}

static unsigned image(unsigned (*of)(unsigned, unsigned), unsigned a, unsigned b)
{
	unsigned set = 0;
	for (unsigned x = 0; x < 3; x++)
		for (unsigned y = 0; y < 3; y++)
			if (a & 1u << x && b & 1u << y)
				set |= 1u << of(x, y);
	return set;
}

static void combined_sets_are_all_that_their_values_give(void **state)
{
	for (unsigned a = 1; a <= GM_MAY_BE_ANY; a++) {
		unsigned opposite = 0;
		for (unsigned x = 0; x < 3; x++)
			if (a & 1u << x)
				opposite |= 1u << kleene_not(x);
		assert_int_equal(gm_stop_not(a), opposite);
		for (unsigned b = 1; b <= GM_MAY_BE_ANY; b++) {
			assert_int_equal(gm_stop_and(a, b), image(kleene_and, a, b));
			assert_int_equal(gm_stop_or(a, b), image(kleene_or, a, b));
		}
	}
}

static bool compare(enum gm_stop_compare how, uint64_t a, uint64_t b)
{
	return how == GM_STOP_IS        ? a == b
	       : how == GM_STOP_IS_NOT  ? a != b
	       : how == GM_STOP_LESS    ? a < b
	       : how == GM_STOP_AT_MOST ? a <= b
	       : how == GM_STOP_MORE    ? a > b
	                                : a >= b;
}

static void a_number_within_bounds_compares_as_each_of_them(void **state)
{
	for (int how = GM_STOP_IS; how <= GM_STOP_AT_LEAST; how++)
		for (uint64_t number = 0; number < 8; number++)
			for (uint64_t least = 0; least < 8; least++)
				for (uint64_t most = least; most < 8; most++) {
					unsigned set = 0;
					for (uint64_t value = least; value <= most; value++)
						set |= compare((enum gm_stop_compare)how, value,
						               number)
						               ? GM_MAY_BE_TRUE
						               : GM_MAY_BE_FALSE;
					assert_int_equal(gm_stop_compare((enum gm_stop_compare)how,
					                         number, least, most),
					        set);
				}
	assert_int_equal(gm_stop_compare(0, 1, 1, 1), GM_MAY_BE_ANY);
}

static void operations_that_lack_results_are_none(void **state)
{
	uint8_t sets[4] = {GM_MAY_BE_TRUE, GM_MAY_BE_FALSE};
	assert_int_equal(gm_stop_combine(GM_STOP_NOT, sets, 0), 0);
	assert_int_equal(gm_stop_combine(GM_STOP_AND, sets, 1), 0);
	assert_int_equal(gm_stop_combine(99, sets, 2), 0);
	assert_int_equal(gm_stop_combine(GM_STOP_OR, sets, 2), 1);
	assert_int_equal(sets[0], GM_MAY_BE_TRUE);
	assert_int_equal(gm_stop_combine(GM_STOP_NOT, sets, 1), 1);
	assert_int_equal(sets[0], GM_MAY_BE_FALSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(combined_sets_are_all_that_their_values_give),
	        cmocka_unit_test(a_number_within_bounds_compares_as_each_of_them),
	        cmocka_unit_test(operations_that_lack_results_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
