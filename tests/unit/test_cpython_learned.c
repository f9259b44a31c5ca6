/* A row that was learned from a CPython: which lines are accepted, and which are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "cpython/versions/learned.h"
#include "image/layouts_file.h"

static struct gm_python_learned learned;

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *say(const char *format, ...)
{
	char line[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	return gm_python_learned_line(&learned, line);
}

/* A shipped row as a probe would write it, without one of its fields. */
static void tell(const struct gm_python_tables *tables, const char *skip)
{
	struct gm_python_layout layout = *tables->layout;
	char line[256];

	gm_python_learned_init(&learned);
	assert_null(say("hexversion %d", tables->version << 16));
	for (size_t i = 0; gm_python_field_name(i); i++) {
		const char *name = gm_python_field_name(i);
		int32_t value = *gm_python_field(&layout, i);
		if (!strcmp(name, "thread_size"))
			value = value < 512 ? value : 512;
		if (value == GM_NO_FIELD || (skip && !strcmp(skip, name)))
			continue;
		const char *why = say("field %s %d", name, value);
		if (why)
			fail_msg("%s %d: %s", name, value, why);
	}
	for (int i = 0; i < 256; i++)
		if (gm_python_opcode_line(tables, (uint8_t)i, line, sizeof(line)))
			assert_null(say("opcode %s", line));
}

static void a_shipped_row_read_from_lines_is_the_same_row(void **state)
{
	const char *field;
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);

	for (size_t k = 0; k < count; k++) {
		tell(&all[k], NULL);
		const char *why = gm_python_learned_check(&learned, &field);
		if (why)
			fail_msg("3.%d: %s: %s", all[k].version & 255, field ? field : "", why);
		for (size_t i = 0; gm_python_field_name(i); i++) {
			struct gm_python_layout layout = *all[k].layout;
			if (strcmp(gm_python_field_name(i), "thread_size") != 0)
				assert_int_equal(*gm_python_field(&learned.layout, i),
				        *gm_python_field(&layout, i));
		}
		for (int i = 0; i < 256; i++) {
			const struct gm_opcode *one = &learned.opcodes[i],
			                       *two = &all[k].opcodes[i];
			assert_int_equal(!one->name, !two->name);
			if (!one->name)
				continue;
			assert_string_equal(one->name, two->name);
			assert_memory_equal(
			        &one->op, &two->op, sizeof(*one) - offsetof(struct gm_opcode, op));
		}
		assert_int_equal(learned.tables.version, all[k].version);
	}
}

static void a_row_that_lacks_a_field_which_is_read_is_refused_by_name(void **state)
{
	const char *field;
	size_t count, refused = 0;
	const struct gm_python_tables *all = gm_python_tables_all(&count);

	for (size_t k = 0; k < count; k++) {
		struct gm_python_layout layout = *all[k].layout;
		for (size_t i = 0; gm_python_field_name(i); i++) {
			if (*gm_python_field(&layout, i) == GM_NO_FIELD)
				continue;
			tell(&all[k], gm_python_field_name(i));
			if (!gm_python_learned_check(&learned, &field))
				continue;
			assert_string_equal(field, gm_python_field_name(i));
			refused++;
		}
	}
	assert_true(refused > count * 110);
}

static void offsets_out_of_bounds_are_refused(void **state)
{
	gm_python_learned_init(&learned);
	assert_non_null(say("field thread_next 505"));
	assert_non_null(say("field thread_next 100000"));
	assert_non_null(say("field thread_next -8"));
	assert_non_null(say("field thread_next 9"));
	assert_non_null(say("field thread_next 0x10"));
	assert_non_null(say("field thread_next 99999999999999999999999"));
	assert_non_null(say("field thread_next"));
	assert_non_null(say("field thread_next 8 8"));
	assert_non_null(say("field"));
	assert_null(say("field thread_next 8"));
	assert_non_null(say("field thread_next 8"));
	assert_non_null(say("field managed_dict 24"));
	assert_non_null(say("field code_size 512"));
	assert_non_null(say("field pool_size 0"));
	assert_non_null(say("hexversion 42"));
	assert_null(say("field of_another_gpumem 1234567890123"));
	assert_null(say("missing frame_code no offset fits all objects"));
	assert_null(say("%s", ""));
}

static void opcodes_that_make_no_sense_are_refused(void **state)
{
	gm_python_learned_init(&learned);
	assert_null(say("opcode 1 NOP OTHER OTHER NONE 1 0 - CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 1 NOP OTHER OTHER NONE 1 0 - CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 256 NOP OTHER OTHER NONE 1 0 - CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 2 NOP OHTER OTHER NONE 1 0 - CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 3 NOP OTHER OTHER NONE 1 0 JUMP CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 4 NOP OTHER OTHER NONE 1 99 - CONSTANT 0 0 CONSTANT 0 0"));
	assert_non_null(say("opcode 5 NOP OTHER OTHER NONE 1 0 - CONSTANT 0 0"));
	assert_non_null(say("opcode 6 %0100d OTHER OTHER NONE 1 0 - CONSTANT 0 0 CONSTANT 0 0", 1));
	assert_null(
	        say("opcode 7 J OTHER OTHER NONE 7 0 JUMP_BACK|NO_NEXT CONSTANT 0 0 CONSTANT 0 0"));
	assert_int_equal(learned.opcodes[7].flags, GM_OPCODE_JUMP_BACK | GM_OPCODE_NO_NEXT);
}

static void a_field_behind_its_struct_is_refused(void **state)
{
	static const char *const last[] = {"thread_next", "type_mro", "code_lines", "str_length"};
	const char *field;

	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
		const struct gm_python_tables *tables = gm_python_tables_of(0x030d);
		const int32_t size = i == 0   ? tables->layout->thread_size
		                     : i == 1 ? tables->layout->type_size
		                     : i == 2 ? tables->layout->code_size
		                              : tables->layout->str_ascii_size;
		tell(tables, last[i]);
		assert_null(say("field %s %d", last[i], size / 8 * 8));
		assert_non_null(gm_python_learned_check(&learned, &field));
		assert_string_equal(field, last[i]);
	}
}

static void a_row_in_a_file_is_read_back_and_a_changed_file_is_refused(void **state)
{
	_cleanup_free_ char *sections = NULL, *text = NULL;
	_cleanup_free_ struct gm_python_learned *again = NULL;
	char path[] = "/tmp/gpumem-layouts-XXXXXX";
	const char *field;
	size_t size;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	tell(gm_python_tables_of(0x030c), NULL);
	assert_null(say("build 0123456789abcdef"));
	assert_null(gm_python_learned_check(&learned, &field));
	assert_null(gm_python_learned_text(&learned, &sections));
	assert_null(gm_layouts_save(path, sections));
	assert_null(gm_layouts_load(path, &text, &size));
	assert_null(gm_python_learned_parse(path, text, size, &again));
	assert_non_null(again);
	assert_memory_equal(&again->layout, &learned.layout, sizeof(learned.layout));
	assert_int_equal(again->id_size, 8);
	assert_int_equal(again->id[1], 0x23);
	for (size_t i = 0; i < size; i += 7) {
		struct gm_python_learned *none = NULL;
		text[i] ^= 1;
		struct gm_error *error = gm_python_learned_parse(path, text, size, &none);
		if (!error)
			fail_msg("byte %zu was changed", i);
		assert_int_equal(error->status, GM_CORRUPT);
		assert_non_null(strstr(error->message, path));
		gm_error_destroy(error);
		text[i] ^= 1;
	}
	for (size_t cut = 0; cut < size; cut += 101) {
		struct gm_python_learned *none = NULL;
		struct gm_error *error = gm_python_learned_parse(path, text, cut, &none);
		assert_non_null(error);
		gm_error_destroy(error);
	}
	unlink(path);
}

static void a_row_is_found_by_its_build(void **state)
{
	const uint8_t id[] = {1, 2, 3, 4};
	struct gm_python_learned *own = malloc(sizeof(*own));

	assert_non_null(own);
	gm_python_learned_init(own);
	memcpy(own->id, id, own->id_size = sizeof(id));
	own->tables.version = 0x03f0;
	assert_null(gm_python_learned_of_build(id, sizeof(id)));
	gm_python_learned_keep(own);
	assert_ptr_equal(gm_python_learned_of_build(id, sizeof(id)), &own->tables);
	assert_ptr_equal(gm_python_learned_of_version(0x03f0), &own->tables);
	assert_null(gm_python_learned_of_build(id, 3));
	assert_null(gm_python_learned_of_build(id, 0));
	assert_null(gm_python_learned_of_version(0x03f1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_shipped_row_read_from_lines_is_the_same_row),
	        cmocka_unit_test(a_row_that_lacks_a_field_which_is_read_is_refused_by_name),
	        cmocka_unit_test(offsets_out_of_bounds_are_refused),
	        cmocka_unit_test(opcodes_that_make_no_sense_are_refused),
	        cmocka_unit_test(a_field_behind_its_struct_is_refused),
	        cmocka_unit_test(a_row_in_a_file_is_read_back_and_a_changed_file_is_refused),
	        cmocka_unit_test(a_row_is_found_by_its_build),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
