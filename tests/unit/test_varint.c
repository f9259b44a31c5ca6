#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/varint.h"

static void numbers_come_back(void **state)
{
	for (unsigned shift = 0; shift < 64; shift++) {
		for (int around = -1; around <= 1; around++) {
			uint64_t value = (UINT64_C(1) << shift) + (uint64_t)around;
			uint8_t bytes[32] = {
			        0}; /* the reader takes eight at once where they are there */
			uint8_t *end = gm_put_varint(bytes, value);
			assert_in_range(end - bytes, 1, 10);
			struct gm_cursor near = {bytes, end, false},
			                 far = {bytes, bytes + 32, false};
			assert_true(gm_get_varint(&near) == value && gm_get_varint(&far) == value);
			assert_ptr_equal(near.at, end);
			assert_ptr_equal(far.at, end);
			assert_false(near.bad || far.bad);
			assert_true(gm_unzigzag(gm_zigzag((int64_t)value)) == (int64_t)value);
		}
	}
}

static void small_numbers_of_either_sign_take_one_byte(void **state)
{
	for (int64_t value = -64; value < 64; value++) {
		uint8_t bytes[10];
		assert_ptr_equal(gm_put_varint(bytes, gm_zigzag(value)), bytes + 1);
	}
}

static void bad(const uint8_t *bytes, size_t size)
{
	struct gm_cursor cursor = {bytes, bytes + size, false};
	assert_int_equal(gm_get_varint(&cursor), 0);
	assert_true(cursor.bad);
	assert_ptr_equal(cursor.at, bytes + size);
}

static void what_is_cut_or_too_long_is_bad(void **state)
{
	const uint8_t many[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	        0xff, 0xff, 0xff, 0xff, 0xff};
	const uint8_t above[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
	for (size_t size = 0; size <= 16; size++)
		bad(many, size);
	bad(above, sizeof(above)); /* beyond 64 bits */
	const uint8_t large[] = {0x80, 0x80, 0x80, 0x80, 0x10};
	struct gm_cursor cursor = {large, large + sizeof(large), false};
	gm_get_u32(&cursor);
	assert_true(cursor.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(numbers_come_back),
	        cmocka_unit_test(small_numbers_of_either_sign_take_one_byte),
	        cmocka_unit_test(what_is_cut_or_too_long_is_bad),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
