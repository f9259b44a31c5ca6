/* The search for the largest value that fits, with a run whose answer is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ask/fit.h"

struct known {
	int64_t limit, broken; /* what fits; a value at which the program fails */
	unsigned runs;
};

static struct gm_error *run(void *data, int64_t value, struct gm_fit_run *ret)
{
	struct known *known = data;
	known->runs++;
	if (value == known->broken)
		return gm_error_create(GM_TARGET, "broken");
	ret->fits = value <= known->limit;
	return NULL;
}

static void the_largest_that_fits_is_found(void **state)
{
	for (int64_t from = -3; from < 4; from++)
		for (int64_t to = from; to < from + 20; to++)
			for (int64_t limit = from - 1; limit <= to + 1; limit++) {
				struct known known = {.limit = limit, .broken = INT64_MAX};
				struct gm_fit fit = {.from = from, .to = to};
				assert_null(gm_fit_search(&fit, run, &known));
				assert_int_equal(fit.any, limit >= from);
				if (fit.any)
					assert_int_equal(fit.largest, limit < to ? limit : to);
				assert_int_equal(fit.count, known.runs);
				assert_true(known.runs <= 2 + 5);
			}
}

static void the_widest_range_takes_no_more_runs_than_the_limit(void **state)
{
	struct known known = {.limit = INT64_MIN + 1, .broken = INT64_MAX};
	struct gm_fit fit = {.from = INT64_MIN, .to = INT64_MAX - 1};
	assert_null(gm_fit_search(&fit, run, &known));
	assert_int_equal(fit.largest, INT64_MIN + 1);
	assert_true(fit.count <= 66);
}

static void a_run_that_fails_ends_the_search_and_what_ran_is_kept(void **state)
{
	struct known known = {.limit = 50, .broken = 50};
	struct gm_fit fit = {.from = 0, .to = 100};
	struct gm_error *error = gm_fit_search(&fit, run, &known);
	assert_non_null(error);
	gm_error_destroy(error);
	assert_int_equal(fit.count, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(the_largest_that_fits_is_found),
	        cmocka_unit_test(the_widest_range_takes_no_more_runs_than_the_limit),
	        cmocka_unit_test(a_run_that_fails_ends_the_search_and_what_ran_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
