/* The simulated device's addresses: handed out lowest first, never twice, given back whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/ranges.h"

enum { PAGE = 2 << 20 };
#define START UINT64_C(0x6d0000000000)

static void lowest_gap_that_fits_is_taken(void **state)
{
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	uint64_t end = START + 100 * (uint64_t)PAGE, a, b, c, d;
	assert_true(gm_sim_ranges_take(&ranges, START, end, 2 * PAGE, PAGE, 1, &a));
	assert_true(gm_sim_ranges_take(&ranges, START, end, PAGE, PAGE, 2, &b));
	assert_int_equal(a, START);
	assert_int_equal(b, START + 2 * PAGE);
	struct gm_sim_range gone;
	assert_true(gm_sim_ranges_remove(&ranges, a, &gone));
	assert_int_equal(gone.size, 2 * PAGE);
	assert_true(gm_sim_ranges_take(&ranges, START, end, 3 * PAGE, PAGE, 3, &c));
	assert_int_equal(c, b + PAGE); /* the gap of two is too small */
	assert_true(gm_sim_ranges_take(&ranges, START, end, PAGE, PAGE, 4, &d));
	assert_int_equal(d, START);
	assert_int_equal(ranges.used, 5 * PAGE);
	gm_sim_ranges_deinit(&ranges);
}

static void a_full_span_gives_no_range(void **state)
{
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	uint64_t at;
	assert_true(gm_sim_ranges_take(&ranges, START, START + PAGE, PAGE, PAGE, 0, &at));
	assert_false(gm_sim_ranges_take(&ranges, START, START + PAGE, 1, 1, 0, &at));
	assert_false(gm_sim_ranges_take(&ranges, START, START + PAGE, 0, 1, 0, &at));
	assert_false(gm_sim_ranges_take(&ranges, START, START - 1, 1, 1, 0, &at));
	gm_sim_ranges_deinit(&ranges);
}

static void an_unaligned_span_gives_aligned_addresses(void **state)
{
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	uint64_t at;
	assert_true(gm_sim_ranges_take(&ranges, START + 5, START + 3 * PAGE, PAGE, PAGE, 0, &at));
	assert_int_equal(at, START + PAGE);
	assert_false(gm_sim_ranges_take(&ranges, START + 5, START + 2 * PAGE, PAGE, PAGE, 0, &at));
	gm_sim_ranges_deinit(&ranges);
}

static void every_address_inside_finds_its_range_and_none_outside(void **state)
{
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	assert_true(gm_sim_ranges_add(&ranges, 1000, 100, 7));
	assert_true(gm_sim_ranges_add(&ranges, 1100, 50, 8));
	assert_null(gm_sim_ranges_find(&ranges, 999));
	assert_int_equal(gm_sim_ranges_find(&ranges, 1000)->value, 7);
	assert_int_equal(gm_sim_ranges_find(&ranges, 1099)->value, 7);
	assert_int_equal(gm_sim_ranges_find(&ranges, 1100)->value, 8);
	assert_null(gm_sim_ranges_find(&ranges, 1150));
	gm_sim_ranges_deinit(&ranges);
}

static void an_overlapping_range_is_refused(void **state)
{
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	assert_true(gm_sim_ranges_add(&ranges, 1000, 100, 0));
	assert_false(gm_sim_ranges_add(&ranges, 1050, 10, 0));
	assert_false(gm_sim_ranges_add(&ranges, 900, 101, 0));
	assert_false(gm_sim_ranges_add(&ranges, 1099, 10, 0));
	assert_false(gm_sim_ranges_add(&ranges, UINT64_MAX, 10, 0));
	assert_true(gm_sim_ranges_add(&ranges, 900, 100, 0));
	gm_sim_ranges_deinit(&ranges);
}

static void only_a_range_s_own_start_removes_it(void **state)
{
	struct gm_sim_ranges ranges;
	struct gm_sim_range gone;
	gm_sim_ranges_init(&ranges);
	assert_true(gm_sim_ranges_add(&ranges, 1000, 100, 0));
	assert_false(gm_sim_ranges_remove(&ranges, 1001, &gone));
	assert_true(gm_sim_ranges_remove(&ranges, 1000, &gone));
	assert_false(gm_sim_ranges_remove(&ranges, 1000, &gone));
	gm_sim_ranges_deinit(&ranges);
}

/* Random takes and removals against a map of pages, one byte each. */
static void random_use_never_gives_a_page_twice(void **state)
{
	enum { PAGES = 512, ROUNDS = 20000 };
	static unsigned char taken[PAGES];
	struct gm_sim_ranges ranges;
	gm_sim_ranges_init(&ranges);
	uint64_t used = 0;
	srand(3);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t at, size = (uint64_t)(1 + rand() % 9) * PAGE;
		if (rand() % 2 && gm_sim_ranges_take(&ranges, START, START + PAGES * (uint64_t)PAGE,
		                          size, PAGE, 0, &at)) {
			for (uint64_t page = (at - START) / PAGE; page < (at + size - START) / PAGE;
			        page++) {
				assert_true(page < PAGES);
				assert_int_equal(taken[page], 0);
				taken[page] = 1;
			}
			used += size;
		} else if (ranges.count) {
			struct gm_sim_range gone;
			at = ranges.items[(size_t)rand() % ranges.count].start;
			assert_true(gm_sim_ranges_remove(&ranges, at, &gone));
			for (uint64_t page = (at - START) / PAGE;
			        page < (at + gone.size - START) / PAGE; page++)
				taken[page] = 0;
			used -= gone.size;
		}
		assert_int_equal(ranges.used, used);
	}
	gm_sim_ranges_deinit(&ranges);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(lowest_gap_that_fits_is_taken),
	        cmocka_unit_test(a_full_span_gives_no_range),
	        cmocka_unit_test(an_unaligned_span_gives_aligned_addresses),
	        cmocka_unit_test(every_address_inside_finds_its_range_and_none_outside),
	        cmocka_unit_test(an_overlapping_range_is_refused),
	        cmocka_unit_test(only_a_range_s_own_start_removes_it),
	        cmocka_unit_test(random_use_never_gives_a_page_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
