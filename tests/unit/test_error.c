#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "base/error.h"

static void message_carries_context_first(void **state)
{
	struct gm_error *error = gm_error_os(GM_TARGET, ENOENT, "cannot open %s", "x");
	error = gm_error_prefix(error, "log");
	assert_string_equal(error->message, "log: cannot open x: No such file or directory");
	assert_int_equal(error->status, GM_TARGET);
	gm_error_destroy(error);
}

static void no_memory_error_needs_no_freeing(void **state)
{
	gm_error_destroy(&gm_error_no_memory);
	assert_ptr_equal(gm_error_prefix(&gm_error_no_memory, "x"), &gm_error_no_memory);
	gm_error_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(message_carries_context_first),
	        cmocka_unit_test(no_memory_error_needs_no_freeing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
