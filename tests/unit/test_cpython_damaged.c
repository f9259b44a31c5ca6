/*
 * Structs of CPython 3.11 and 3.12 made by hand in this process's own memory, damaged on purpose:
 * everything that is read of them ends, with what could be read or with an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/python.h"

enum { CODE_UNITS = 8, MAX = 64 };

/* Everything 8-aligned and zero where nothing is put. */
static struct {
	uint64_t runtime[32], interpreter[128], thread[64], thread2[64], cframe[4];
	uint64_t frames[4][16];
	uint64_t code[40], bytes[16], tuple[8], text[16];
	uint64_t type_type[64], code_type[64], str_type[64], other_type[64], other_type2[64];
	uint64_t dict[8], keys[16], gc[8][2], object[16];
} it;
static struct gm_python *python;

static uint64_t at(const void *pointer)
{
	return (uint64_t)(uintptr_t)pointer;
}

static void put(void *object, int32_t offset, uint64_t value)
{
	memcpy((char *)object + offset, &value, sizeof(value));
}

static void put_type(uint64_t *type, const char *name, uint64_t metatype, uint64_t flags)
{
	const struct gm_python_layout *l = &python->layout;

	put(type, l->object_refcount, 1);
	put(type, l->object_type, metatype);
	put(type, l->type_name, at(name));
	put(type, l->type_basicsize, 32);
	put(type, l->type_flags, flags | GM_TYPE_FLAG_READY);
}

/* One thread with two frames of one function of three instructions. */
static void set_up(int version)
{
	const struct gm_python_layout *l;

	memset(&it, 0, sizeof(it));
	python = calloc(1, sizeof(*python));
	assert_null(gm_image_open_pid(getpid(), &python->image));
	python->version = version;
	python->layout = version == 0x030b ? gm_python_layout_311 : gm_python_layout_312;
	python->opcodes = version == 0x030b ? gm_opcodes_311 : gm_opcodes_312;
	python->runtime = at(it.runtime);
	python->type_type = at(it.type_type);
	l = &python->layout;
	if (l->interpreter_threads + 8 > (int32_t)sizeof(it.interpreter)) {
		/* 3.12's interpreter is big: the little that is used of it is moved to the front */
		python->layout.interpreter_next = 0;
		python->layout.interpreter_threads = 16;
		python->layout.interpreter_modules = 24;
	}
	python->layout.interpreter_generations = 64;
	python->layout.interpreter_permanent = 64 + 3 * l->gc_generation_size;
	for (int i = 0; i < 4; i++)
		put(it.interpreter, 64 + i * l->gc_generation_size,
		        at(it.interpreter) + 64 + (uint64_t)(i * l->gc_generation_size));
	put_type(it.type_type, "type", at(it.type_type), GM_TYPE_FLAG_TYPE);
	put_type(it.code_type, "code", at(it.type_type), 0);
	put_type(it.str_type, "str", at(it.type_type), GM_TYPE_FLAG_STR);
	put(it.text, l->object_type, at(it.str_type));
	put(it.text, l->str_length, 4);
	put(it.text, l->str_state, 1 << 2 | 1 << 5 | 1 << 6);
	memcpy((char *)it.text + l->str_ascii_size, "name", 4);
	put(it.code, l->object_type, at(it.code_type));
	put(it.code, l->object_size, CODE_UNITS);
	put(it.code, l->code_name, at(it.text));
	put(it.code, l->code_qualname, at(it.text));
	put(it.code, l->code_filename, at(it.text));
	put(it.code, l->code_lines, at(it.bytes));
	put(it.code, l->code_locals_names, at(it.tuple));
	put(it.code, l->code_locals_kinds, at(it.bytes));
	put(it.code, l->code_names, at(it.tuple));
	put(it.runtime, l->runtime_interpreters_head, at(it.interpreter));
	put(it.interpreter, python->layout.interpreter_threads, at(it.thread));
	put(it.thread, l->thread_interpreter, at(it.interpreter));
	put(it.thread, l->thread_native_id, 7);
	put(it.thread, l->thread_cframe, at(it.cframe));
	put(it.cframe, l->cframe_frame, at(it.frames[0]));
	for (int i = 0; i < 4; i++) {
		put(it.frames[i], l->frame_code, at(it.code));
		put(it.frames[i], l->frame_instruction,
		        at(it.code) + (uint64_t)l->code_adaptive + 2);
	}
	put(it.frames[0], l->frame_previous, at(it.frames[1]));
}

static void tear_down(void)
{
	gm_image_close(python->image);
	python->image = NULL;
	gm_python_close(python);
}

static size_t stack(void)
{
	struct gm_python_frame frames[MAX];

	gm_image_invalidate(python->image);
	return gm_python_stack(python, 7, frames, MAX);
}

static void a_whole_stack_is_read(void **state)
{
	set_up(0x030b);
	assert_int_equal(stack(), 2);
	assert_int_equal(stack(), 2); /* by what is remembered of the thread */
	tear_down();
}

static void a_cycle_of_frames_ends(void **state)
{
	const int32_t previous = gm_python_layout_311.frame_previous;

	set_up(0x030b);
	put(it.frames[1], previous, at(it.frames[0]));
	assert_in_range(stack(), 1, 8);
	put(it.frames[0], previous, at(it.frames[0]));
	assert_in_range(stack(), 1, 8);
	put(it.frames[0], previous, at(it.frames[1]));
	put(it.frames[1], previous, at(it.frames[2]));
	put(it.frames[2], previous, at(it.frames[1]));
	assert_in_range(stack(), 1, 8);
	tear_down();
}

static void a_cycle_of_frames_without_python_code_ends(void **state)
{
	set_up(0x030c);
	for (int i = 0; i < 2; i++) {
		((char *)it.frames[i])[gm_python_layout_312.frame_owner] = GM_OWNED_BY_C;
		put(it.frames[i], gm_python_layout_312.frame_previous, at(it.frames[1 - i]));
	}
	assert_int_equal(stack(), 0);
	tear_down();
}

static void a_wild_frame_pointer_ends_the_stack(void **state)
{
	static const uint64_t wild[] = {
	        1, 8, 0xdeadbeef, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};

	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		set_up(0x030b);
		put(it.frames[0], gm_python_layout_311.frame_previous, wild[i]);
		assert_int_equal(stack(), 1);
		put(it.cframe, gm_python_layout_311.cframe_frame, wild[i]);
		assert_int_equal(stack(), 0);
		tear_down();
	}
}

static void a_code_object_with_an_absurd_field_is_none(void **state)
{
	const struct gm_python_layout *l = &gm_python_layout_311;
	const struct {
		int32_t field;
		uint64_t value;
	} rows[] = {{l->object_size, UINT64_MAX}, {l->object_size, UINT64_C(1) << 40},
	        {l->object_size, 0}, {l->object_type, 0}, {l->object_type, at(it.str_type)},
	        {l->object_type, UINT64_MAX}, {l->code_lines, 1},
	        {l->code_locals_kinds, UINT64_MAX - 15}, {l->code_locals_names, 8}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_up(0x030b);
		put(it.code, rows[i].field, rows[i].value);
		assert_int_equal(stack(), 0);
		tear_down();
	}
}

static void too_many_locals_are_none(void **state)
{
	set_up(0x030b);
	put(it.tuple, gm_python_layout_311.object_size, UINT64_C(1) << 50);
	assert_int_equal(stack(), 0);
	tear_down();
}

static void a_code_object_that_changed_is_read_again(void **state)
{
	struct gm_python_frame frame;
	uint32_t id;

	set_up(0x030b);
	assert_int_equal(gm_python_stack(python, 7, &frame, 1), 1);
	id = frame.code->id;
	assert_int_equal(gm_python_stack(python, 7, &frame, 1), 1);
	assert_int_equal(frame.code->id, id);
	put(it.code, gm_python_layout_311.code_first_line, 77);
	gm_image_invalidate(python->image);
	assert_int_equal(gm_python_stack(python, 7, &frame, 1), 1);
	assert_int_not_equal(frame.code->id, id);
	assert_int_equal(frame.code->first_line, 77);
	tear_down();
}

static void an_unknown_thread_is_found_once_it_has_a_state(void **state)
{
	const struct gm_python_layout *l = &gm_python_layout_311;
	struct gm_python_frame frame;

	set_up(0x030b);
	assert_int_equal(gm_python_stack(python, 9, &frame, 1), 0);
	assert_int_equal(gm_python_stack(python, 9, &frame, 1), 0);
	memcpy(it.thread2, it.thread, sizeof(it.thread2));
	put(it.thread2, l->thread_native_id, 9);
	put(it.thread2, l->thread_next, at(it.thread));
	put(it.interpreter, l->interpreter_threads, at(it.thread2));
	gm_image_invalidate(python->image);
	assert_int_equal(gm_python_stack(python, 9, &frame, 1), 1);
	assert_int_equal(gm_python_stack(python, 7, &frame, 1), 1);
	put(it.thread2, l->thread_native_id, 10); /* the state went to another thread */
	gm_image_invalidate(python->image);
	assert_int_equal(gm_python_stack(python, 9, &frame, 1), 0);
	assert_int_equal(gm_python_stack(python, 10, &frame, 1), 1);
	tear_down();
}

static void a_cycle_of_threads_ends(void **state)
{
	struct gm_python_thread threads[4];
	size_t count;

	set_up(0x030b);
	put(it.thread, gm_python_layout_311.thread_next, at(it.thread));
	assert_null(gm_python_threads(python, threads, 4, &count));
	assert_int_equal(count, 4);
	assert_int_equal(gm_python_stack(python, 99, NULL, 0), 0);
	tear_down();
}

static bool count_one(void *context, uint64_t object)
{
	++*(size_t *)context;
	return true;
}

static void a_damaged_list_of_the_collector_is_an_error(void **state)
{
	struct gm_error *error;
	size_t count = 0;

	set_up(0x030b);
	assert_null(gm_python_tracked(python, count_one, &count, NULL));
	assert_int_equal(count, 0);
	put(it.interpreter, 64, at(it.gc[0]));
	it.gc[0][0] = at(it.gc[1]);
	it.gc[1][0] = at(it.gc[2]);
	it.gc[2][0] = at(it.gc[1]);
	gm_image_invalidate(python->image);
	error = gm_python_tracked(python, count_one, &count, NULL);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "has a cycle"));
	assert_int_equal(error->status, GM_CORRUPT);
	assert_in_range(count, 2, 32);
	gm_error_destroy(error);
	it.gc[2][0] = 0xdeadbee8;
	gm_image_invalidate(python->image);
	error = gm_python_tracked(python, count_one, &count, NULL);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "cannot be read"));
	gm_error_destroy(error);
	tear_down();
}

static void types_whose_chain_does_not_end_in_type_are_none(void **state)
{
	const char *name;

	set_up(0x030b);
	put_type(it.other_type, "one", at(it.other_type2), GM_TYPE_FLAG_TYPE);
	put_type(it.other_type2, "two", at(it.other_type), GM_TYPE_FLAG_TYPE);
	put(it.object, 8, at(it.other_type));
	assert_false(gm_python_type_name(python, at(it.object), &name));
	put_type(it.other_type, "one", at(it.other_type),
	        GM_TYPE_FLAG_TYPE); /* its own type, but not `type` */
	gm_image_invalidate(python->image);
	assert_false(gm_python_type_name(python, at(it.object), &name));
	put_type(it.other_type, "one", at(it.type_type), 0);
	put(it.other_type, gm_python_layout_311.type_base, at(it.other_type)); /* its own base */
	gm_image_invalidate(python->image);
	assert_false(gm_python_type_name(python, at(it.object), &name));
	put(it.other_type, gm_python_layout_311.type_base, 0);
	gm_image_invalidate(python->image);
	assert_true(gm_python_type_name(python, at(it.object), &name));
	assert_string_equal(name, "one");
	assert_false(gm_python_type_name(python, at(it.object) + 4, &name));
	assert_false(gm_python_type_name(python, 0, &name));
	assert_false(gm_python_type_name(python, UINT64_MAX - 7, &name));
	tear_down();
}

static void a_str_with_an_absurd_length_is_cut_or_none(void **state)
{
	char *text;

	set_up(0x030b);
	assert_true(gm_python_str(python, at(it.text), 2, &text));
	assert_string_equal(text, "na");
	free(text);
	put(it.text, gm_python_layout_311.str_length, UINT64_MAX / 2);
	gm_image_invalidate(python->image);
	assert_false(gm_python_str(python, at(it.text), 1 << 20, &text));
	put(it.text, gm_python_layout_311.str_state, 7 << 2); /* no such kind */
	gm_image_invalidate(python->image);
	assert_false(gm_python_str(python, at(it.text), 16, &text));
	tear_down();
}

static bool visit_none(void *context, uint64_t key, uint64_t value)
{
	fail_msg("an entry of a dict that is none");
	return false;
}

static void a_dict_with_absurd_keys_is_none(void **state)
{
	const struct gm_python_layout *l = &gm_python_layout_311;

	set_up(0x030b);
	put(it.dict, l->dict_keys, at(it.keys));
	put(it.keys, l->keys_entries, 5);
	((uint8_t *)it.keys)[l->keys_log2_size] = 255;
	assert_false(gm_py_dict_each(python, at(it.dict), visit_none, NULL));
	((uint8_t *)it.keys)[l->keys_log2_size] = 3;
	put(it.keys, l->keys_entries, UINT64_MAX);
	gm_image_invalidate(python->image);
	assert_false(gm_py_dict_each(python, at(it.dict), visit_none, NULL));
	put(it.dict, l->dict_keys, 0xdeadbee8);
	gm_image_invalidate(python->image);
	assert_false(gm_py_dict_each(python, at(it.dict), visit_none, NULL));
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_whole_stack_is_read),
	        cmocka_unit_test(a_cycle_of_frames_ends),
	        cmocka_unit_test(a_cycle_of_frames_without_python_code_ends),
	        cmocka_unit_test(a_wild_frame_pointer_ends_the_stack),
	        cmocka_unit_test(a_code_object_with_an_absurd_field_is_none),
	        cmocka_unit_test(too_many_locals_are_none),
	        cmocka_unit_test(a_code_object_that_changed_is_read_again),
	        cmocka_unit_test(an_unknown_thread_is_found_once_it_has_a_state),
	        cmocka_unit_test(a_cycle_of_threads_ends),
	        cmocka_unit_test(a_damaged_list_of_the_collector_is_an_error),
	        cmocka_unit_test(types_whose_chain_does_not_end_in_type_are_none),
	        cmocka_unit_test(a_str_with_an_absurd_length_is_cut_or_none),
	        cmocka_unit_test(a_dict_with_absurd_keys_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
