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

static void facts_are_kept_beside_the_message(void **state)
{
	struct gm_error *error = gm_error_at_offset(
	        gm_error_create(GM_CORRUPT, "a.gpumem: byte 12: damaged"), "a.gpumem", 12);
	error = gm_error_prefix(error, "oom");
	assert_true(error->has_offset);
	assert_int_equal(error->offset, 12);
	assert_false(error->has_address);
	assert_string_equal(error->path, "a.gpumem");
	assert_string_equal(error->message, "oom: a.gpumem: byte 12: damaged");
	gm_error_destroy(error);
}

static void first_fact_stays(void **state)
{
	struct gm_error *error =
	        gm_error_at_address(gm_error_create(GM_TARGET, "not mapped"), NULL, 0x1000);
	error = gm_error_at_address(error, "core.1", 0x2000);
	error = gm_error_in_file(error, "core.2");
	assert_int_equal(error->address, 0x1000);
	assert_string_equal(error->path, "core.1");
	gm_error_destroy(error);
	assert_null(gm_error_in_file(NULL, "core.1"));
	assert_false(gm_error_at_offset(&gm_error_no_memory, "core.1", 1)->has_offset);
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
	        cmocka_unit_test(facts_are_kept_beside_the_message),
	        cmocka_unit_test(first_fact_stays),
	        cmocka_unit_test(no_memory_error_needs_no_freeing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
