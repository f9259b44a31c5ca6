/*
 * Whether a file defines a function that a user names: of libraries that are made here, with
 * functions at random in namespaces, classes and templates. Each of their names has a number of its
 * own, so that what must not be found is known too.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "random.h"
#include "symbols/symbols.h"

enum {
	FUNCTIONS = 120,
	PARTS_MAX = 5,
};

enum kind { PLAIN, MEMBER, TEMPLATE, OF_TEMPLATE, HIDDEN, IN_C, KINDS };

struct function {
	enum kind kind;
	char parts[PARTS_MAX][32]; /* the last one is its own */
	int count;
};

static char folder[64];

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/gpumem-test-XXXXXX");
	return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static void write_function(FILE *out, struct random *random, int index, struct function *function)
{
	static const char *const words[] = {
	        "all_reduce", "Reducer", "a", "x9", "run", "of", "Of_2"};
	*function = (struct function){.kind = (enum kind)random_below(random, KINDS)};
	function->count = function->kind == IN_C ? 1 : 2 + (int)random_below(random, 3);
	for (int i = 0; i < function->count; i++)
		snprintf(function->parts[i], sizeof(function->parts[i]), "%s%d_%d",
		        words[random_below(random, sizeof(words) / sizeof(*words))], i, index);
	const char *name = function->parts[function->count - 1];
	bool in_class = function->kind == MEMBER || function->kind == OF_TEMPLATE;
	int namespaces = function->kind == IN_C ? 0 : function->count - 1 - in_class;
	for (int i = 0; i < namespaces; i++)
		fprintf(out, "namespace %s { ", function->parts[i]);
	const char *class = in_class ? function->parts[function->count - 2] : NULL;
	switch (function->kind) {
	case IN_C:
		fprintf(out, "extern \"C\" int %s(int i) { return i; }", name);
		break;
	case PLAIN:
		fprintf(out, "int %s(int *i, const char *) { return *i; }", name);
		break;
	case MEMBER:
		fprintf(out,
		        "struct %s { int %s(int) const; }; int %s::%s(int i) const { return i; }",
		        class, name, class, name);
		break;
	case TEMPLATE:
		fprintf(out,
		        "template <class T> T %s(T i) { return i; } template int %s<int>(int);",
		        name, name);
		break;
	case OF_TEMPLATE:
		fprintf(out,
		        "template <class T> struct %s { T %s(T i) { return i; } }; template struct "
		        "%s<long>;",
		        class, name, class);
		break;
	default:
		fprintf(out,
		        "namespace { __attribute__((noinline, used)) int %s(int i) { return i; } }",
		        name);
		break;
	}
	for (int i = 0; i < namespaces; i++)
		fputs(" }", out);
	fputc('\n', out);
}

/* The name from a part on; of what is in a namespace without a name only its own. */
static void name_from(const struct function *function, int from, char *text)
{
	text[0] = '\0';
	for (int i = from; i < function->count; i++)
		strcat(strcat(text, i > from ? "::" : ""), function->parts[i]);
}

static void functions_are_found_by_each_of_their_names(void **state)
{
	if (system("command -v g++ >/dev/null") != 0) {
		print_message("skipped: no g++ here\n");
		skip();
	}
	for (uint64_t round = 0; round < random_rounds(2); round++) {
		struct random random = random_of_round(round);
		struct function functions[FUNCTIONS];
		char path[128], command[512];
		snprintf(path, sizeof(path), "%s/defines.cpp", folder);
		FILE *out = fopen(path, "w");
		for (int i = 0; i < FUNCTIONS; i++)
			write_function(out, &random, i, &functions[i]);
		fclose(out);
		snprintf(command, sizeof(command),
		        "cd %s && g++ -shared -fPIC -O1 -o defines.so defines.cpp", folder);
		assert_int_equal(system(command), 0);
		snprintf(path, sizeof(path), "%s/defines.so", folder);
		for (int i = 0; i < FUNCTIONS; i++) {
			const struct function *function = &functions[i];
			for (int from = 0; from < function->count; from++) {
				char name[256], other[300];
				name_from(function, from, name);
				bool found =
				        function->kind != HIDDEN || from == function->count - 1;
				check_in_round(round, gm_symbols_file_defines(path, name) == found);
				snprintf(other, sizeof(other), "%s(int, char const*)", name);
				check_in_round(
				        round, gm_symbols_file_defines(path, other) == found);
				snprintf(other, sizeof(other), "%s<int> ", name);
				check_in_round(
				        round, gm_symbols_file_defines(path, other) == found);
				snprintf(other, sizeof(other), "other::%s", name);
				check_in_round(round, !gm_symbols_file_defines(path, other));
				snprintf(other, sizeof(other), "%s_", name);
				check_in_round(round, !gm_symbols_file_defines(path, other));
				check_in_round(round, !gm_symbols_file_defines(path, name + 1));
			}
		}
	}
}

static void unknown_names_and_libraries_are_not_found(void **state)
{
	char longest[4000];
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	static const char *const names[] = {
	        "", "::", "(", "<", ">>", "operator()", "a::", "~", "\x1b[2J", " "};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_false(gm_symbols_file_defines("/proc/self/exe", names[i]));
	assert_false(gm_symbols_file_defines("/proc/self/exe", longest));
	assert_true(gm_symbols_file_defines("/proc/self/exe", "main"));
	assert_false(gm_symbols_file_defines("/nowhere", "main"));
	assert_false(gm_symbols_file_defines("/etc/passwd", "main"));
	assert_false(gm_symbols_file_defines("/dev/zero", "main"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(functions_are_found_by_each_of_their_names),
	        cmocka_unit_test(unknown_names_and_libraries_are_not_found),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
