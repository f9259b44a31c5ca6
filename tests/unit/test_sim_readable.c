/* What can be read of memory whose size is not known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/readable.h"

enum { PAGE = 4096, PAGES = 40 };

static char *pages(void)
{
	char *at = mmap(
	        NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(at != MAP_FAILED);
	return at;
}

static void all_of_it_is(void **state)
{
	char *at = pages();
	assert_int_equal(gm_sim_readable(at, PAGES * PAGE), PAGES * PAGE);
	assert_int_equal(gm_sim_readable(at + 100, 200), 200);
	assert_int_equal(gm_sim_readable(at + PAGE - 1, 2), 2);
	assert_int_equal(gm_sim_readable(at, 0), 0);
	munmap(at, PAGES * PAGE);
}

static void it_ends_at_a_page_that_is_protected_or_not_there(void **state)
{
	for (int last = 0; last < PAGES; last++) {
		char *at = pages();
		assert_int_equal(mprotect(at + last * PAGE, PAGE, PROT_NONE), 0);
		assert_int_equal(gm_sim_readable(at, PAGES * PAGE), last * PAGE);
		if (last)
			assert_int_equal(
			        gm_sim_readable(at + 7, PAGES * PAGE - 7), last * PAGE - 7);
		assert_int_equal(munmap(at + last * PAGE, PAGE), 0);
		assert_int_equal(gm_sim_readable(at, PAGES * PAGE), last * PAGE);
		munmap(at, PAGES * PAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(all_of_it_is),
	        cmocka_unit_test(it_ends_at_a_page_that_is_protected_or_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
