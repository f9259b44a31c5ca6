#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "symbols/find_bytes.h"

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static size_t plain(const char *bytes, size_t size, const char *wanted, size_t length, size_t from)
{
	for (size_t at = from; length <= size && at <= size - length; at++)
		if (memcmp(bytes + at, wanted, length) == 0)
			return at;
	return SIZE_MAX;
}

/* Few different bytes, so that there are many places that nearly fit, also at the ends. */
static void bytes_are_found_where_a_plain_search_finds_them(void **state)
{
	static const char letters[] = "_ZN3c10A";
	char bytes[700];
	for (unsigned round = 0; round < 20000; round++) {
		size_t size = next() % sizeof(bytes) + 1, length = next() % 12 + 1;
		size_t from = next() % 40, kinds = next() % 7 + 1, start = next() % size;
		for (size_t i = 0; i < size; i++)
			bytes[i] = letters[next() % kinds];
		char wanted[16];
		for (size_t i = 0; i < length; i++)
			wanted[i] = start + i < size ? bytes[start + i] : '_';
		assert_int_equal(gm_find_bytes(bytes, size, wanted, length, from),
		        plain(bytes, size, wanted, length, from));
	}
}

static void nothing_is_found_in_too_little(void **state)
{
	assert_int_equal(gm_find_bytes("abc", 3, "abcd", 4, 0), SIZE_MAX);
	assert_int_equal(gm_find_bytes("abc", 3, "c", 1, 3), SIZE_MAX);
	assert_int_equal(gm_find_bytes("abc", 3, "c", 1, SIZE_MAX), SIZE_MAX);
	assert_int_equal(gm_find_bytes("abc", 3, "c", 1, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(bytes_are_found_where_a_plain_search_finds_them),
	        cmocka_unit_test(nothing_is_found_in_too_little),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
