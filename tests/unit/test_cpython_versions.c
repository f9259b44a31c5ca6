/*
 * The table of CPython's versions: each entry is of its own version, what is not in it is refused,
 * and what a CPython publishes of itself moves a layout only as a whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "cpython/decode/recorded.h"
#include "cpython/versions/versions.h"

static void each_entry_is_of_its_own_version(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);

	assert_true(count >= 5);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(all[i].layout->version, all[i].version);
		assert_int_equal(all[i].version, all[0].version + (int)i);
		assert_ptr_equal(gm_python_tables_of(all[i].version), &all[i]);
		assert_true(all[i].layout->pool_size == 4096 || all[i].layout->pool_size == 16384);
		assert_non_null(all[i].opcodes);
		assert_true((all[i].version >= 0x030d) == (all[i].published[0].size_at != 0));
	}
}

static void the_text_for_messages_names_the_first_and_the_last(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);
	char text[64];

	snprintf(text, sizeof(text), "3.%d to 3.%d", all[0].version & 0xff,
	        all[count - 1].version & 0xff);
	assert_string_equal(GM_PYTHON_VERSIONS, text);
}

static void versions_before_and_after_are_not_known(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);
	const int unknown[] = {
	        0, -1, 0x0308, all[count - 1].version + 1, 0x03ff, 0x0400, 0x030900, INT32_MAX};

	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_null(gm_python_tables_of(unknown[i]));
}

static void recorded_code_of_an_unknown_version_is_refused_by_name(void **state)
{
	struct gm_python *python = NULL;
	struct gm_error *error = gm_python_recorded_open(0x0310, &python);

	assert_non_null(error);
	assert_non_null(strstr(error->message, "Python 3.16: gpumem has no table"));
	assert_null(python);
	gm_error_destroy(error);
}

/* What CPython 3.13 publishes, with the layout's own offsets moved by `more`. */
static void publish(uint8_t *bytes, const struct gm_python_tables *tables, int32_t more)
{
	memset(bytes, 0, GM_PUBLISHED_MOST);
	memcpy(bytes, "xdebugpy", 8);
	for (const struct gm_published_field *f = tables->published; f->size_at; f++) {
		int32_t offset;
		uint64_t value, size = 1 << 20;
		memcpy(&offset, (const char *)tables->layout + f->field, sizeof(offset));
		value = (uint64_t)(offset + more);
		memcpy(bytes + f->at, &value, 8);
		memcpy(bytes + f->size_at, &size, 8);
	}
}

static void what_is_published_is_put_over_the_table(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);
	uint8_t bytes[GM_PUBLISHED_MOST];

	for (size_t i = 0; i < count; i++) {
		struct gm_python_layout layout = *all[i].layout;
		int32_t more = all[i].published[0].size_at ? 16 : 0;
		publish(bytes, &all[i], 16);
		gm_python_put_published(&all[i], &layout, bytes);
		assert_int_equal(layout.frame_previous, all[i].layout->frame_previous + more);
		assert_int_equal(layout.interpreter_generations,
		        all[i].layout->interpreter_generations + more);
		assert_int_equal(layout.code_name, all[i].layout->code_name);
	}
}

static void absurd_offsets_leave_the_layout_as_it_is(void **state)
{
	const struct gm_python_tables *tables = gm_python_tables_of(0x030d);
	uint8_t bytes[GM_PUBLISHED_MOST];

	for (const struct gm_published_field *f = tables->published; f->size_at; f++) {
		struct gm_python_layout layout = *tables->layout;
		publish(bytes, tables, 16);
		memset(bytes + f->at, 0xff, 8);
		gm_python_put_published(tables, &layout, bytes);
		assert_memory_equal(&layout, tables->layout, sizeof(layout));
	}
	struct gm_python_layout layout = *tables->layout;
	publish(bytes, tables, 16);
	bytes[0] = 'y';
	gm_python_put_published(tables, &layout, bytes);
	assert_memory_equal(&layout, tables->layout, sizeof(layout));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(each_entry_is_of_its_own_version),
	        cmocka_unit_test(the_text_for_messages_names_the_first_and_the_last),
	        cmocka_unit_test(versions_before_and_after_are_not_known),
	        cmocka_unit_test(recorded_code_of_an_unknown_version_is_refused_by_name),
	        cmocka_unit_test(what_is_published_is_put_over_the_table),
	        cmocka_unit_test(absurd_offsets_leave_the_layout_as_it_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
