/* Small floating-point types: every code there and back, and values between codes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/float.h"

static void every_half_comes_back(void **state)
{
	for (unsigned bits = 0; bits < 1 << 16; bits++) {
		float value = gm_sim_of_half((uint16_t)bits);
		if (value == value)
			assert_int_equal(gm_sim_to_half(value), bits);
		else
			assert_int_equal(gm_sim_to_half(value), 0x7fff);
	}
}

static void every_bfloat16_comes_back(void **state)
{
	for (unsigned bits = 0; bits < 1 << 16; bits++) {
		float value = gm_sim_of_bfloat16((uint16_t)bits);
		if (value == value)
			assert_int_equal(gm_sim_to_bfloat16(value), bits);
		else
			assert_int_equal(gm_sim_to_bfloat16(value), 0x7fff);
	}
}

static void known_values_are_those_of_ieee_754(void **state)
{
	assert_true(gm_sim_of_half(0x3c00) == 1 && gm_sim_of_half(0xc000) == -2);
	assert_true(gm_sim_of_half(0x7bff) == 65504 && isinf(gm_sim_of_half(0xfc00)));
	assert_true(gm_sim_of_half(0x0001) == ldexpf(1, -24) && gm_sim_of_half(0x8000) == 0);
	assert_true(gm_sim_of_bfloat16(0x3f80) == 1 && gm_sim_of_bfloat16(0x4049) == 3.140625f);
}

/* Halfway between two neighbours goes to the even one; a little more to the upper. */
static void rounding_is_to_the_nearest_and_ties_to_even(void **state)
{
	for (unsigned bits = 0; bits < 0x7bff; bits++) {
		double low = gm_sim_of_half((uint16_t)bits),
		       high = gm_sim_of_half((uint16_t)(bits + 1)), middle = (low + high) / 2;
		assert_int_equal(gm_sim_to_half(middle), bits + (bits & 1));
		assert_int_equal(gm_sim_to_half(nextafter(middle, 1e9)), bits + 1);
		assert_int_equal(gm_sim_to_half(nextafter(middle, -1e9)), bits);
		assert_int_equal(gm_sim_to_half(-middle), 0x8000 | (bits + (bits & 1)));
	}
}

static void what_is_too_large_becomes_infinite(void **state)
{
	assert_int_equal(gm_sim_to_half(65519.99), 0x7bff);
	assert_int_equal(gm_sim_to_half(65520), 0x7c00);
	assert_int_equal(gm_sim_to_half(-1e300), 0xfc00);
	assert_int_equal(gm_sim_to_half(-INFINITY), 0xfc00);
	assert_int_equal(gm_sim_to_bfloat16(3.4e38f), 0x7f80);
}

static void fp8_stops_at_its_largest_where_the_caller_says(void **state)
{
	assert_int_equal(gm_sim_to_small(1e9, 4, 3, 0x7e, 0x7e), 0x7e);
	assert_true(gm_sim_of_small(0x7e, 4, 3) == 448);
	assert_int_equal(gm_sim_to_small(-57344, 5, 2, 0x7b, 0x7b), 0xfb);
	for (unsigned bits = 0; bits < 0x7f; bits++)
		assert_int_equal(
		        gm_sim_to_small(gm_sim_of_small(bits, 4, 3), 4, 3, 0x7e, 0x7e), bits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(every_half_comes_back),
	        cmocka_unit_test(every_bfloat16_comes_back),
	        cmocka_unit_test(known_values_are_those_of_ieee_754),
	        cmocka_unit_test(rounding_is_to_the_nearest_and_ties_to_even),
	        cmocka_unit_test(what_is_too_large_becomes_infinite),
	        cmocka_unit_test(fp8_stops_at_its_largest_where_the_caller_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
