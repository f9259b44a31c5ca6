#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "base/nearest_word.h"
#include "base/size.h"
#include "gpumem.h"

static int ask(const char *const *argv, int argc, char **out, char **err)
{
	gpumem_session *session = gpumem_session_create();
	assert_non_null(session);
	int status = gpumem_session_run(session, argc, argv, out, err);
	gpumem_session_destroy(session);
	return status;
}

static void no_arguments_give_the_list_of_commands(void **state)
{
	char *out, *err;
	assert_int_equal(ask((const char *const[]){NULL}, 0, &out, &err), 0);
	assert_non_null(strstr(out, "Commands:"));
	assert_null(err);
	gpumem_free(out);
}

static void unknown_command_is_wrong_usage(void **state)
{
	char *out, *err;
	assert_int_equal(ask((const char *const[]){"zzzzzzz", NULL}, 1, &out, &err), 2);
	assert_null(out);
	assert_string_equal(err, "gpumem: unknown command 'zzzzzzz': see `gpumem --help`\n");
	gpumem_free(err);
}

static void words_are_near_by_their_mistakes(void **state)
{
	assert_int_equal(gm_word_distance("blocks", "blocks"), 0);
	assert_int_equal(gm_word_distance("bolcks", "blocks"), 2);
	assert_int_equal(gm_word_distance("whyy", "why"), 1);
	assert_int_equal(gm_word_distance("bl", "blocks"), 1); /* begins so */
	assert_int_equal(gm_word_distance("WhoHolds", "who-holds"), 0);
	assert_int_equal(gm_word_distance("whohas", "who-holds"), 3);
	assert_true(gm_word_distance("a", "amp") == 1);
	assert_true(gm_word_distance("foo", "fit") == SIZE_MAX); /* two of three are wrong */
	assert_true(gm_word_distance("", "why") == SIZE_MAX);
	assert_true(gm_word_distance("-", "why") == SIZE_MAX);
	char longest[65] = "";
	memset(longest, 'b', 63);
	assert_int_equal(gm_word_distance(longest, longest), 0);
	longest[63] = 'b';
	assert_true(gm_word_distance(longest, longest) == SIZE_MAX);
}

static void numbers_are_parsed_whole_or_refused(void **state)
{
	uint64_t number = 0;
	assert_null(gm_parse_number("0x10", 0, 100, &number));
	assert_int_equal(number, 16);
	const char *const bad[] = {"", "-1", "1x", "0x", "99999999999999999999999", " 1", "101"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct gm_error *error = gm_parse_number(bad[i], 0, 100, &number);
		assert_non_null(error);
		assert_int_equal(error->status, GM_USAGE);
		gm_error_destroy(error);
	}
}

static void sizes_have_units_in_any_case(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"64mb", 64 << 20}, {"64MB", 64 << 20}, {"64mib", 64 << 20},
	        {"64MIB", 64 << 20}, {"64KIB", 64 << 10}, {"64 Kb", 64 << 10}, {"1.5g", 3 << 29},
	        {"10", 10}, {"010", 10}, {"10 B", 10}, {"10b", 10}};
	uint64_t bytes;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_null(gm_parse_bytes(good[i].text, &bytes));
		assert_int_equal(bytes, good[i].bytes);
	}
	const char *const bad[] = {
	        "", "MiB", "-1", "0x10", "0X10", "1QiB", "1iB", "1MiBx", "1M B", "1024T", "1e400"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct gm_error *error = gm_parse_bytes(bad[i], &bytes);
		assert_non_null(error);
		assert_int_equal(error->status, GM_USAGE);
		gm_error_destroy(error);
	}
}

struct seen {
	int key;
	char value[32];
};

static struct gm_error *see(void *input, int key, const char *argument)
{
	struct seen *seen = input;
	seen->key = key;
	snprintf(seen->value, sizeof(seen->value), "%s", argument ? argument : "");
	return NULL;
}

static const struct argp_option options[] = {
        {"at", 'a', "EVENT", 0, "at an event", 0},
        {"at-peak", 'p', NULL, 0, "at the peak", 0},
        {0},
};

static struct gm_error *parse(int argc, const char *const *words, int most, bool stop,
        struct seen *seen, struct gm_arguments *arguments)
{
	static char *argv[16]; /* argp's own type; it moves the pointers, not what they point to */
	memcpy(argv, words, sizeof(*argv) * ((size_t)argc + 1));
	const struct gm_command command = {.name = "test", .usage = "FILE"};
	FILE *out = tmpfile();
	struct gm_error *error = gm_arguments_parse(
	        &command, argc, argv, options, see, seen, most, stop, out, arguments);
	fclose(out);
	return error;
}

static void options_positionals_and_json_are_distinguished(void **state)
{
	const char *const argv[] = {"test", "file", "--at", "3", "--json", NULL};
	struct seen seen = {0};
	struct gm_arguments arguments;
	assert_null(parse(5, argv, 1, false, &seen, &arguments));
	assert_true(arguments.json);
	assert_int_equal(arguments.positional_count, 1);
	assert_string_equal(arguments.positional[0], "file");
	assert_int_equal(seen.key, 'a');
	assert_string_equal(seen.value, "3");
}

static void refused(const char *const *argv, int argc, int most, const char *message)
{
	struct seen seen = {0};
	struct gm_arguments arguments;
	struct gm_error *error = parse(argc, argv, most, false, &seen, &arguments);
	assert_non_null(error);
	assert_int_equal(error->status, GM_USAGE);
	assert_string_equal(error->message, message);
	gm_error_destroy(error);
}

static void wrong_arguments_are_named(void **state)
{
	refused((const char *const[]){"test", "--nope", NULL}, 2, 1,
	        "test: unknown option '--nope': see `gpumem test "
	        "--help`");
	refused((const char *const[]){"test", "--at", NULL}, 2, 1,
	        "test: option '--at' needs a value: EVENT: see `gpumem test --help`");
	refused((const char *const[]){"test", "a", "b", NULL}, 3, 1,
	        "test: unexpected argument 'b': the command takes at most 1: see `gpumem test "
	        "--help`");
}

static void what_follows_a_double_dash_is_left_alone(void **state)
{
	const char *const argv[] = {"test", "--at", "3", "--", "prog", "--json", NULL};
	struct seen seen = {0};
	struct gm_arguments arguments;
	assert_null(parse(6, argv, 0, true, &seen, &arguments));
	assert_false(arguments.json);
	assert_int_equal(arguments.rest, 4);
	assert_string_equal(argv[arguments.rest], "prog");
}

static void the_first_word_ends_the_options_of_a_program_runner(void **state)
{
	const char *const argv[] = {"test", "--at", "3", "prog", "--json", NULL};
	struct seen seen = {0};
	struct gm_arguments arguments;
	assert_null(parse(5, argv, 0, true, &seen, &arguments));
	assert_false(arguments.json);
	assert_int_equal(arguments.rest, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(no_arguments_give_the_list_of_commands),
	        cmocka_unit_test(unknown_command_is_wrong_usage),
	        cmocka_unit_test(words_are_near_by_their_mistakes),
	        cmocka_unit_test(numbers_are_parsed_whole_or_refused),
	        cmocka_unit_test(sizes_have_units_in_any_case),
	        cmocka_unit_test(options_positionals_and_json_are_distinguished),
	        cmocka_unit_test(wrong_arguments_are_named),
	        cmocka_unit_test(what_follows_a_double_dash_is_left_alone),
	        cmocka_unit_test(the_first_word_ends_the_options_of_a_program_runner),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
