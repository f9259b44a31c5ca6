#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/map.h"

enum { COUNT = 50000 };

/* Neighbours, multiples of a page, and what hashes anywhere. */
static uint64_t key(uint64_t i)
{
	return i % 3 == 0   ? 16 + i * 8
	       : i % 3 == 1 ? UINT64_C(0x7f0000000000) + i * 4096
	                    : gm_hash_mix(i);
}

static void values_are_found_by_their_keys(void **state)
{
	struct gm_map map = {0};
	bool is_new;
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_null(gm_map_find(&map, key(i)));
		*gm_map_put(&map, key(i), &is_new) = i;
		assert_true(is_new);
	}
	assert_int_equal(map.count, COUNT);
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_int_equal(*gm_map_find(&map, key(i)), i);
		assert_int_equal(*gm_map_put(&map, key(i), &is_new), i);
		assert_false(is_new);
		assert_null(gm_map_find(&map, key(i) + 1));
	}
	assert_int_equal(map.count, COUNT);
	gm_map_deinit(&map);
}

static void zero_is_no_key(void **state)
{
	struct gm_map map = {0};
	assert_null(gm_map_find(&map, 0));
	assert_null(gm_map_put(&map, 0, NULL));
	assert_non_null(gm_map_put(&map, 1, NULL));
	assert_null(gm_map_find(&map, 0));
	gm_map_deinit(&map);
	gm_map_deinit(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(values_are_found_by_their_keys),
	        cmocka_unit_test(zero_is_no_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
