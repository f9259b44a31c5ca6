/*
 * Decoding of line tables, bytecode, loops and version names, on synthetic input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpython/versions/locate.h"
#include "cpython/versions/locate_file.h"
#include "cpython/python.h"

#define LINES(entry, version, size, first, ...)                                        \
	do {                                                                           \
		const uint8_t table_[] = {__VA_ARGS__};                                \
		assert_true(gm_py_lines_decode(                                        \
		        (entry), (version), table_, sizeof(table_), (first), (size))); \
	} while (0)

static void lnotab_of_3_9_counts_bytes_and_signed_lines(void **state)
{
	struct gm_code_entry entry = {0};

	/* +4 bytes +1 line, +6 bytes -2 lines, +255 bytes +0, +1 byte +3 lines */
	LINES(&entry, 0x0309, 400, 10, 4, 1, 6, (uint8_t)-2, 255, 0, 1, 3);
	assert_int_equal(gm_py_line_at(&entry, 0), 10);
	assert_int_equal(gm_py_line_at(&entry, 3), 10);
	assert_int_equal(gm_py_line_at(&entry, 4), 11);
	assert_int_equal(gm_py_line_at(&entry, 10), 9);
	assert_int_equal(gm_py_line_at(&entry, 265), 9);
	assert_int_equal(gm_py_line_at(&entry, 266), 12);
	gm_array_deinit(&entry.lines);
}

static void linetable_of_3_10_has_ranges_and_ranges_without_a_line(void **state)
{
	struct gm_code_entry entry = {0};

	LINES(&entry, 0x030a, 100, 5, 4, 0, 2, (uint8_t)-128, 6, 2, 0, 10, 4, (uint8_t)-9);
	assert_int_equal(gm_py_line_at(&entry, 0), 5);
	assert_int_equal(gm_py_line_at(&entry, 4), 0);
	assert_int_equal(gm_py_line_at(&entry, 6), 7);
	assert_int_equal(gm_py_line_at(&entry, 12), 8);
	gm_array_deinit(&entry.lines);
}

static void location_table_of_3_11_has_all_its_kinds(void **state)
{
	struct gm_code_entry entry = {0};

	LINES(&entry, 0x030b, 100, 3, 0x80 | 0 << 3 | 1, 0x12, /* short, 2 units, line +0 */
	        0x80 | 11 << 3 | 0, 0x01, 0x02,                /* one line form, 1 unit, line +1 */
	        0x80 | 13 << 3 | 2, 0x04,                      /* no columns, 3 units, line +2 */
	        0x80 | 14 << 3 | 0, 0x03, 0x00, 0x01, 0x01,    /* long, 1 unit, line -1 */
	        0x80 | 15 << 3 | 0,                            /* none, 1 unit */
	        0x80 | 13 << 3 | 0, 0x40 | 0x02, 0x02); /* no columns, line +65 in two bytes */
	assert_int_equal(gm_py_line_at(&entry, 0), 3);
	assert_int_equal(gm_py_line_at(&entry, 4), 4);
	assert_int_equal(gm_py_line_at(&entry, 6), 6);
	assert_int_equal(gm_py_line_at(&entry, 12), 5);
	assert_int_equal(gm_py_line_at(&entry, 14), 0);
	assert_int_equal(gm_py_line_at(&entry, 16), 5 + 65);
	gm_array_deinit(&entry.lines);
}

static void cut_or_absurd_line_tables_end_early(void **state)
{
	static const int versions[] = {0x0309, 0x030a, 0x030b, 0x030d};

	srand(1);
	for (int i = 0; i < 4000; i++) {
		struct gm_code_entry entry = {0};
		uint8_t table[64];
		size_t size = (size_t)rand() % sizeof(table);
		uint8_t *exact =
		        malloc(size ? size : 1); /* so that a sanitizer sees a read past its end */
		for (size_t k = 0; k < size; k++)
			table[k] = (uint8_t)rand();
		memcpy(exact, table, size);
		assert_true(gm_py_lines_decode(&entry, versions[i % 4], exact, size, 1, 200));
		assert_true(entry.lines.count <= 201);
		for (size_t k = 1; k < entry.lines.count; k++)
			assert_true(entry.lines.items[k].start > entry.lines.items[k - 1].start);
		gm_array_deinit(&entry.lines);
		free(exact);
	}
}

/* --- bytecode --------------------------------------------------------------------------------- */

static uint8_t number_of(const struct gm_opcode *opcodes, const char *name)
{
	for (int i = 0; i < 256; i++) {
		if (opcodes[i].name && !strcmp(opcodes[i].name, name))
			return (uint8_t)i;
	}
	fail_msg("no opcode %s", name);
	return 0;
}

static const char *const locals[] = {"a", "b", "c", "d"};
static struct gm_python python;
static struct gm_code_entry entry;

static void begin(
        int version, const struct gm_opcode *opcodes, const uint8_t *bytecode, size_t size)
{
	memset(&python, 0, sizeof(python));
	memset(&entry, 0, sizeof(entry));
	assert_null(gm_image_open_pid(getpid(), &python.image));
	gm_py_use_tables(&python, gm_python_tables_of(version));
	python.opcodes = opcodes;
	entry.address = 8; /* unmapped: the copy is what counts */
	entry.bytecode = malloc(size);
	memcpy(entry.bytecode, bytecode, size);
	entry.bytecode_size = (uint32_t)size;
	entry.code.local_names = locals;
	entry.code.local_count = 4;
	entry.local_plain = 2;
	assert_true(gm_py_units_mark(&entry, opcodes));
}

static void end(void)
{
	gm_image_close(python.image);
	free(entry.bytecode);
	free(entry.units);
	gm_array_deinit(&entry.loops);
	gm_array_deinit(&entry.lines);
}

static void expect(uint32_t offset, enum gm_op op, const char *name, const char *other)
{
	struct gm_instruction at;

	gm_python_instruction(&python, &entry.code, offset, &at);
	assert_int_equal(at.op, op);
	if (name)
		assert_string_equal(at.name, name);
	else
		assert_null(at.name);
	if (other)
		assert_string_equal(at.other_name, other);
	else
		assert_null(at.other_name);
}

static void caches_belong_to_the_instruction_before_them(void **state)
{
	const struct gm_opcode *o = gm_opcodes_311;
	const uint8_t code[] = {number_of(o, "RESUME_QUICK"), 0, number_of(o, "PRECALL_PYFUNC"), 1,
	        number_of(o, "STORE_FAST"), 99 /* a cache that looks like a store */,
	        number_of(o, "CALL_PY_EXACT_ARGS"), 1, 1, 1, 2, 2, 3, 3, 4, 4,
	        number_of(o, "STORE_FAST"), 1};

	begin(0x030b, o, code, sizeof(code));
	expect(2, GM_OP_CALL, NULL, NULL);
	expect(4, GM_OP_CALL, NULL, NULL);
	expect(14, GM_OP_CALL, NULL, NULL);
	expect(16, GM_OP_STORE_FAST, "b", NULL);
	expect(18, GM_OP_OTHER, NULL, NULL); /* past the end */
	expect(UINT32_MAX, GM_OP_OTHER, NULL, NULL);
	end();
}

static void superinstructions_name_what_they_store_to(void **state)
{
	const struct gm_opcode *o = gm_opcodes_311;
	const uint8_t code[] = {number_of(o, "STORE_FAST__LOAD_FAST"), 2, number_of(o, "LOAD_FAST"),
	        1, number_of(o, "STORE_FAST__STORE_FAST"), 0, number_of(o, "STORE_FAST"), 3,
	        number_of(o, "LOAD_FAST__LOAD_FAST"), 0, number_of(o, "LOAD_FAST"), 1};
	const uint8_t code313[] = {number_of(gm_opcodes_313, "STORE_FAST_STORE_FAST"), 0x21,
	        number_of(gm_opcodes_313, "STORE_FAST_LOAD_FAST"), 0x12,
	        number_of(gm_opcodes_313, "LOAD_FAST_LOAD_FAST"), 0x12};

	begin(0x030b, o, code, sizeof(code));
	expect(0, GM_OP_STORE_FAST, "c", NULL);
	expect(2, GM_OP_OTHER, NULL, NULL);
	expect(4, GM_OP_STORE_FAST, "a", "d");
	expect(6, GM_OP_STORE_FAST, "d", NULL);
	expect(8, GM_OP_OTHER, NULL, NULL);
	end();
	begin(0x030d, gm_opcodes_313, code313, sizeof(code313));
	expect(0, GM_OP_STORE_FAST, "c", "b");
	expect(2, GM_OP_STORE_FAST, "b", NULL);
	expect(4, GM_OP_OTHER, NULL, NULL);
	end();
}

static void specialised_stores_are_the_stores_they_stand_for(void **state)
{
	static const struct {
		const char *name;
		enum gm_op op;
	} rows[] = {{"STORE_ATTR_ADAPTIVE", GM_OP_STORE_ATTR},
	        {"STORE_ATTR_INSTANCE_VALUE", GM_OP_STORE_ATTR},
	        {"STORE_ATTR_SLOT", GM_OP_STORE_ATTR}, {"STORE_ATTR_WITH_HINT", GM_OP_STORE_ATTR},
	        {"STORE_SUBSCR_ADAPTIVE", GM_OP_STORE_SUBSCR},
	        {"STORE_SUBSCR_DICT", GM_OP_STORE_SUBSCR},
	        {"STORE_SUBSCR_LIST_INT", GM_OP_STORE_SUBSCR},
	        {"PRECALL_NO_KW_LIST_APPEND", GM_OP_CALL}, {"CALL_PY_WITH_DEFAULTS", GM_OP_CALL},
	        {"CALL_FUNCTION_EX", GM_OP_CALL}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(
		        gm_opcodes_311[number_of(gm_opcodes_311, rows[i].name)].op, rows[i].op);
	assert_int_equal(
	        gm_opcodes_312[number_of(gm_opcodes_312, "CALL_NO_KW_LIST_APPEND")].op, GM_OP_CALL);
	assert_int_equal(
	        gm_opcodes_312[number_of(gm_opcodes_312, "INSTRUMENTED_CALL")].op, GM_OP_CALL);
	assert_int_equal(
	        gm_opcodes_313[number_of(gm_opcodes_313, "CALL_LIST_APPEND")].op, GM_OP_CALL);
	assert_int_equal(
	        gm_opcodes_313[number_of(gm_opcodes_313, "FOR_ITER_LIST")].op, GM_OP_FOR_ITER);
}

static void extended_arguments_are_put_together(void **state)
{
	const struct gm_opcode *o = gm_opcodes_309;
	const uint8_t code[] = {number_of(o, "EXTENDED_ARG"), 0, number_of(o, "EXTENDED_ARG"), 0,
	        number_of(o, "STORE_FAST"), 2, number_of(o, "EXTENDED_ARG"), 1,
	        number_of(o, "STORE_FAST"), 2, number_of(o, "STORE_DEREF"), 1};

	begin(0x0309, o, code, sizeof(code));
	expect(0, GM_OP_STORE_FAST, "c", NULL); /* 3.9 stays at the first of them */
	expect(4, GM_OP_STORE_FAST, "c", NULL);
	expect(8, GM_OP_STORE_FAST, NULL, NULL);  /* local 258: there is none */
	expect(10, GM_OP_STORE_DEREF, "d", NULL); /* cells come after the two locals */
	end();
}

static void backward_jumps_make_loops_outer_first_and_one_per_head(void **state)
{
	const struct gm_opcode *o = gm_opcodes_311;
	const uint8_t code[] = {
	        number_of(o, "NOP"), 0,                        /* 0 */
	        number_of(o, "FOR_ITER"), 9,                   /* 2: outer head */
	        number_of(o, "FOR_ITER"), 4,                   /* 4: inner head */
	        number_of(o, "NOP"), 0,                        /* 6 */
	        number_of(o, "POP_JUMP_BACKWARD_IF_TRUE"), 3,  /* 8: continue -> 4 */
	        number_of(o, "JUMP_BACKWARD"), 4,              /* 10 -> 4 */
	        number_of(o, "JUMP_BACKWARD"), 6,              /* 12 -> 2 */
	        number_of(o, "SEND"), 3,                       /* 14 */
	        number_of(o, "JUMP_BACKWARD_NO_INTERRUPT"), 2, /* 16 -> 14: an await */
	        number_of(o, "JUMP_BACKWARD"), 200,            /* 18: before the start */
	};

	begin(0x030b, o, code, sizeof(code));
	for (uint32_t i = 0; i < 10; i++)
		assert_true(gm_array_push(&entry.lines, ((struct gm_line_row){2 * i, 100 + i})));
	assert_true(gm_py_loops_find(&entry, 0x030b, o, 1, NULL, 0));
	assert_int_equal(entry.code.loop_count, 2);
	assert_int_equal(entry.code.loops[0].start, 2);
	assert_int_equal(entry.code.loops[0].end, 14);
	assert_int_equal(entry.code.loops[0].line, 101);
	assert_int_equal(entry.code.loops[0].line_end, 106);
	assert_int_equal(entry.code.loops[1].start, 4);
	assert_int_equal(entry.code.loops[1].end, 12);
	end();
}

/* Since 3.12 a handler is at the end, and jumps back to what follows its statement. */
static void a_handler_that_jumps_back_is_no_loop_unless_it_begins_the_statement_again(void **state)
{
	const struct gm_opcode *o = gm_opcodes_312;
	/* instructions 1 and 2 are protected, 5 and 6 handle */
	static const uint8_t table[] = {0x80 | 1, 2, 5, 0};

	for (uint32_t target = 1; target <= 3; target += 2) { /* again; what follows */
		const uint8_t code[] = {
		        number_of(o, "NOP"), 0,                               /* 0 */
		        number_of(o, "NOP"), 0,                               /* 2: try */
		        number_of(o, "NOP"), 0,                               /* 4 */
		        number_of(o, "NOP"), 0,                               /* 6: after it */
		        number_of(o, "RETURN_VALUE"), 0,                      /* 8 */
		        number_of(o, "NOP"), 0,                               /* 10: except */
		        number_of(o, "JUMP_BACKWARD"), (uint8_t)(7 - target), /* 12 */
		};
		for (size_t known = 0; known < 2; known++) {
			begin(0x030c, o, code, sizeof(code));
			assert_true(gm_py_loops_find(
			        &entry, 0x030c, o, 1, table, known ? sizeof(table) : 0));
			assert_int_equal(entry.code.loop_count, !known || target == 1);
			end();
		}
	}
}

/* The handler of a `with` or `try` at the end of a loop's body begins the next iteration. Between
 * the two is what follows the loop. */
static void a_handler_at_the_end_of_the_code_is_in_its_loop_and_what_is_between_is_not(void **state)
{
	const struct gm_opcode *o = gm_opcodes_312;
	static const uint8_t table[] = {0x80 | 2, 1, 7, 0}; /* instruction 2 is protected */
	const uint8_t code[] = {
	        number_of(o, "NOP"), 0,           /* 0, line 1 */
	        number_of(o, "NOP"), 0,           /* 2, line 2: head */
	        number_of(o, "NOP"), 0,           /* 4, line 3: in the try statement */
	        number_of(o, "JUMP_BACKWARD"), 3, /* 6 */
	        number_of(o, "NOP"), 0,           /* 8, line 6: after the loop */
	        number_of(o, "NOP"), 0,           /* 10, line 1: the exit of a `with` around it */
	        number_of(o, "RETURN_VALUE"), 0,  /* 12, line 7 */
	        number_of(o, "PUSH_EXC_INFO"), 0, /* 14, line 4: except */
	        number_of(o, "NOP"), 0,           /* 16, line 5 */
	        number_of(o, "JUMP_BACKWARD"), 9, /* 18 */
	        number_of(o, "RETURN_VALUE"), 0,  /* 20 */
	};
	static const uint8_t lines[] = {1, 2, 3, 3, 6, 1, 7, 4, 5, 5, 1};

	begin(0x030c, o, code, sizeof(code));
	for (uint32_t i = 0; i < sizeof(lines); i++)
		assert_true(gm_array_push(&entry.lines, ((struct gm_line_row){2 * i, lines[i]})));
	assert_true(gm_py_loops_find(&entry, 0x030c, o, 1, table, sizeof(table)));
	assert_int_equal(entry.code.loop_count, 1);
	const struct gm_loop *loop = &entry.code.loops[0];
	assert_int_equal(loop->start, 2);
	assert_int_equal(loop->end, 20);
	assert_int_equal(loop->line, 2);
	assert_int_equal(loop->line_end, 5);
	for (uint32_t i = 0; i < sizeof(lines); i++)
		assert_int_equal(gm_loop_contains(loop, 2 * i, lines[i]),
		        (i >= 1 && i <= 3) || (i >= 7 && i <= 9));
	end();
}

static void random_bytecode_is_decoded_within_its_bounds(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);

	srand(2);
	for (int i = 0; i < 700; i++) {
		uint8_t code[64];
		size_t size = ((size_t)rand() % sizeof(code)) & ~(size_t)1;
		for (size_t k = 0; k < size; k++)
			code[k] = (uint8_t)rand();
		const struct gm_python_tables *one = &all[(size_t)i % count];
		begin(one->version, one->opcodes, code, size ? size : 2);
		assert_true(gm_py_loops_find(
		        &entry, python.version, python.opcodes, 1 + i % 2, code, size));
		for (uint32_t k = 0; k < entry.code.loop_count; k++) {
			assert_true(entry.code.loops[k].start < entry.code.loops[k].end);
			assert_true(entry.code.loops[k].end <= entry.bytecode_size);
		}
		for (uint32_t offset = 0; offset < 70; offset++) {
			struct gm_instruction at;
			gm_python_instruction(&python, &entry.code, offset, &at);
			assert_true(at.op < GM_OP_COUNT);
		}
		for (uint32_t k = 0; entry.name_cache && k < entry.name_count; k++)
			free(entry.name_cache[k]);
		free(entry.name_cache);
		free(entry.depths);
		end();
	}
}

/* Where its depths lie is what AddressSanitizer watches. */
static void no_jump_leads_out_of_the_code(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);

	for (size_t i = 0; i < 256 * count; i++) {
		const struct gm_python_tables *one = &all[i / 256];
		const struct gm_opcode *opcode = &one->opcodes[i % 256];
		if (!opcode->name ||
		        !(opcode->flags & (GM_OPCODE_JUMP_BACK | GM_OPCODE_JUMP_ABSOLUTE |
		                                  GM_OPCODE_JUMP_FORWARD)))
			continue;
		for (int argument = 0; argument < 8; argument++) {
			const uint8_t code[] = {(uint8_t)(i % 256), (uint8_t)argument};
			begin(one->version, one->opcodes, code, sizeof(code));
			gm_py_depths_find(&entry, one->version, one->opcodes, NULL, 0);
			free(entry.depths);
			end();
		}
	}
}

static void every_table_has_the_stores_and_returns(void **state)
{
	size_t count;
	const struct gm_python_tables *all = gm_python_tables_all(&count);
	static const char *const names[] = {"STORE_FAST", "STORE_NAME", "STORE_ATTR",
	        "STORE_SUBSCR", "STORE_DEREF", "STORE_GLOBAL", "DELETE_FAST", "RETURN_VALUE",
	        "POP_TOP", "FOR_ITER", "POP_EXCEPT", "YIELD_VALUE"};

	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
			assert_int_not_equal(all[i].opcodes[number_of(all[i].opcodes, names[k])].op,
			        GM_OP_OTHER);
	}
}

/* --- versions --------------------------------------------------------------------------------- */

static void file_names_show_versions_and_free_threading(void **state)
{
	bool threaded;

	assert_int_equal(gm_python_version_of_name("libpython3.10.so.1.0", &threaded), 0x030a0000);
	assert_false(threaded);
	assert_int_equal(gm_python_version_of_name("python3.13t", &threaded), 0x030d0000);
	assert_true(threaded);
	assert_int_equal(gm_python_version_of_name("libpython3.13t.so.1.0", &threaded), 0x030d0000);
	assert_true(threaded);
	assert_int_equal(gm_python_version_of_name("python", &threaded), 0);
	assert_int_equal(gm_python_version_of_name("libpython3.so", &threaded), 0);
}

static void version_strings_are_found_between_other_strings(void **state)
{
#define FIND(text, minor) gm_python_version_in_bytes(text, sizeof(text), minor)
	assert_int_equal(FIND("x\0003.10.13\0y", 0), 0x030a0df0);
	assert_int_equal(FIND("x\0003.9.18+\0y", 0x0309), 0x030912f0);
	assert_int_equal(FIND("/opt/python/3.9.18\0y", 0x0309), 0x030912f0);
	assert_int_equal(FIND("/opt/python/3.9.18\0y", 0), 0);
	assert_int_equal(FIND("\0003.10.13\0", 0x0309), 0);
	assert_int_equal(FIND("\0003.1415926\0003.\0003", 0), 0);
	assert_int_equal(FIND("3.10", 0), 0);
}

static void sections_are_found_by_name(void **state)
{
	struct gm_image *image;
	uint64_t address = 0;

	assert_null(gm_image_open_pid(getpid(), &image));
	assert_true(gm_python_find_section(image, "/proc/self/exe", ".text", &address));
	assert_int_not_equal(address, 0);
	assert_false(gm_python_find_section(image, "/proc/self/exe", ".PyRuntime", &address));
	assert_false(gm_python_find_section(image, "/dev/null", ".text", &address));
	assert_false(gm_python_find_section(image, "/no/such/file", ".text", &address));
	gm_image_close(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(lnotab_of_3_9_counts_bytes_and_signed_lines),
	        cmocka_unit_test(linetable_of_3_10_has_ranges_and_ranges_without_a_line),
	        cmocka_unit_test(location_table_of_3_11_has_all_its_kinds),
	        cmocka_unit_test(cut_or_absurd_line_tables_end_early),
	        cmocka_unit_test(caches_belong_to_the_instruction_before_them),
	        cmocka_unit_test(superinstructions_name_what_they_store_to),
	        cmocka_unit_test(specialised_stores_are_the_stores_they_stand_for),
	        cmocka_unit_test(extended_arguments_are_put_together),
	        cmocka_unit_test(backward_jumps_make_loops_outer_first_and_one_per_head),
	        cmocka_unit_test(
	                a_handler_that_jumps_back_is_no_loop_unless_it_begins_the_statement_again),
	        cmocka_unit_test(
	                a_handler_at_the_end_of_the_code_is_in_its_loop_and_what_is_between_is_not),
	        cmocka_unit_test(random_bytecode_is_decoded_within_its_bounds),
	        cmocka_unit_test(no_jump_leads_out_of_the_code),
	        cmocka_unit_test(every_table_has_the_stores_and_returns),
	        cmocka_unit_test(file_names_show_versions_and_free_threading),
	        cmocka_unit_test(version_strings_are_found_between_other_strings),
	        cmocka_unit_test(sections_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
