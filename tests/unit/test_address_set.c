#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/address_set.h"

static const uint64_t base = UINT64_C(0x7f0000000000);

static uint64_t address(uint64_t number)
{
	return base + number * 8 * 1009;
}

static void taking_another_set_adds_its_members_once(void **state)
{
	struct gm_address_set set = {0}, other = {0};
	for (uint64_t i = 0; i < 2000; i++) {
		if (i % 2 == 0)
			assert_true(gm_address_set_add(&set, address(i), NULL));
		if (i % 3 == 0 || i > 1500)
			assert_true(gm_address_set_add(&other, address(i), NULL));
	}
	assert_true(gm_address_set_take(&set, &other));
	assert_int_equal(other.count, 0);
	size_t count = 0;
	for (uint64_t i = 0; i < 2000; i++) {
		bool is_in = i % 2 == 0 || i % 3 == 0 || i > 1500;
		count += is_in;
		assert_int_equal(gm_address_set_has(&set, address(i)), is_in);
	}
	assert_int_equal(set.count, count);
	assert_true(gm_address_set_number(&set));
	for (uint64_t i = 0, number = 0; i < 2000; i++)
		if (i % 2 == 0 || i % 3 == 0 || i > 1500)
			assert_int_equal(gm_address_set_find(&set, address(i)), number++);
	gm_address_set_deinit(&set);
}

static void a_difference_is_what_only_the_first_has(void **state)
{
	struct gm_address_set set = {0}, other = {0};
	uint64_t found[40];
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(gm_address_set_add(&set, address(i), NULL));
		if (i % 50)
			assert_true(gm_address_set_add(&other, address(i), NULL));
	}
	assert_true(gm_address_set_add(&other, address(5000), NULL));
	assert_int_equal(gm_address_set_difference(&set, &other, found, 40), 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal((found[i] - base) / 8 / 1009 % 50, 0);
	found[7] = 1;
	assert_int_equal(gm_address_set_difference(&set, &other, found, 7), 20);
	assert_int_equal(found[7], 1); /* no more than there is room for */
	gm_address_set_deinit(&set);
	gm_address_set_deinit(&other);
}

static void what_is_removed_is_not_in_it(void **state)
{
	struct gm_address_set set = {0};
	for (uint64_t i = 0; i < 100; i++)
		assert_true(gm_address_set_add(&set, address(i), NULL));
	gm_address_set_remove(&set, address(42));
	gm_address_set_remove(&set, address(42));
	gm_address_set_remove(&set, address(4200));
	assert_int_equal(set.count, 99);
	assert_false(gm_address_set_has(&set, address(42)));
	assert_true(gm_address_set_has(&set, address(43)));
	gm_address_set_deinit(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(taking_another_set_adds_its_members_once),
	        cmocka_unit_test(a_difference_is_what_only_the_first_has),
	        cmocka_unit_test(what_is_removed_is_not_in_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
