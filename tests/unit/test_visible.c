#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "base/visible.h"

static void assert_shown(const char *text, const char *shown)
{
	char *put = gm_put_string("%s", text);
	assert_string_equal(put, shown);
	char *twice = gm_put_string("%s", put);
	assert_string_equal(twice, shown);
	free(twice);
	free(put);
}

static void control_characters_are_shown_as_escapes(void **state)
{
	assert_shown("a\nb\tc\rd", "a\\nb\\tc\\rd");
	assert_shown("\033]0;x\007\033[2J\x7f", "\\x1b]0;x\\x07\\x1b[2J\\x7f");
	assert_shown("\u202edlrow\u202c \u2066x\u2069 \u061c \u200e",
	        "\\u202edlrow\\u202c \\u2066x\\u2069 \\u061c \\u200e");
	assert_shown("\xc2\x9b"
	             "2J \xc2\x85 \u2028 \u2029 \u200b \ufeff \U000e0041",
	        "\\u009b2J \\u0085 \\u2028 \\u2029 \\u200b \\ufeff \\U000e0041");
	assert_shown("\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80 \xe2\x82",
	        "\\xff\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80 \\xe2\\x82");
}

static void names_in_any_language_are_unchanged(void **state)
{
	assert_shown("größe.py 模型 שלום مرحبا 🙂 ← · \\x1b",
	        "größe.py 模型 שלום مرحبا 🙂 ← · \\x1b");
}

static void the_middle_of_a_long_text_is_left_out(void **state)
{
	enum { LENGTH = 65536 };
	char *text = malloc(LENGTH + 1);
	memset(text, 'a', LENGTH);
	text[0] = '<';
	text[LENGTH - 1] = '>';
	text[LENGTH] = '\0';
	char *shown = gm_put_string("%s|%s", text, text + LENGTH - GM_VISIBLE_MOST);
	size_t first = strcspn(shown, "|");
	assert_true(first < GM_VISIBLE_MOST);
	assert_int_equal(shown[0], '<');
	assert_int_equal(shown[first - 1], '>');
	assert_non_null(strstr(shown, "aa[... 64,768 bytes ...]aa"));
	assert_int_equal(
	        strlen(shown + first + 1), GM_VISIBLE_MOST); /* the longest that is whole */
	free(shown);
	free(text);
}

static void no_character_is_cut(void **state)
{
	char text[4 * 2000 + 2], *at = text;
	for (int shift = 0; shift < 4; shift++) {
		at = text;
		for (int i = 0; i < shift; i++)
			*at++ = 'a';
		for (int i = 0; i < 1000; i++)
			at = stpcpy(at, "🙂");
		char *shown = gm_put_string("%s", text);
		assert_null(strstr(shown, "\\x"));
		free(shown);
	}
}

#define assert_put(expected, ...)                        \
	do {                                             \
		char *put_ = gm_put_string(__VA_ARGS__); \
		assert_string_equal(put_, expected);     \
		free(put_);                              \
	} while (0)

/* Each conversion twice: alone, as the C library prints it, and next to a text with control
 * characters. */
static void other_conversions_are_printfs(void **state)
{
	char plain[400];
	int width = -7;
#define CONVERSIONS                                                                               \
	"%d|%5u|%-8ld|%08" PRIx64 "|%zu|%+" PRId64 "|%#x|%hhu|%ju|%td|%.2f|%*.*f|%g|%%|%*d|%.3d", \
	        -12, 3000000000u, -5L, UINT64_C(0xfedcba9876543210), SIZE_MAX, INT64_C(7), 255,   \
	        (unsigned char)7, UINTMAX_MAX, (ptrdiff_t)-3, 2.555, 9, 1, 3.14159, 1e100, width, \
	        42, 5
	snprintf(plain, sizeof(plain), CONVERSIONS);
	assert_put(plain, CONVERSIONS);
#undef CONVERSIONS
#define CONVERSIONS(text)                                                                        \
	"%s%d|%5u|%-8ld|%08" PRIx64 "|%zu|%+" PRId64                                             \
	"|%#x|%hhu|%ju|%td|%.2f|%*.*f|%g|%%|%*d|%.3d",                                           \
	        text, -12, 3000000000u, -5L, UINT64_C(0xfedcba9876543210), SIZE_MAX, INT64_C(7), \
	        255, (unsigned char)7, UINTMAX_MAX, (ptrdiff_t)-3, 2.555, 9, 1, 3.14159, 1e100,  \
	        width, 42, 5
	snprintf(plain, sizeof(plain), CONVERSIONS("\\n"));
	assert_put(plain, CONVERSIONS("\n"));
#undef CONVERSIONS
}

static void widths_and_precisions_are_those_of_what_is_shown(void **state)
{
	assert_put("|  \\n|\\n  |\\n", "|%4s|%-4s|%.1s", "\n", "\n", "\nb");
	assert_put("|  \\x1b|", "|%*s|", 6, "\033");
	assert_put("|\\x1b  |ab|", "|%*s|%.*s|", -6, "\033", 2, "ab\n");
	assert_put("\\x07 x", "%c %c", 7, 'x');
}

static void the_formats_own_newlines_and_colours_stay(void **state)
{
	assert_put("\033[1m\ta\\n\033[0m\n", "\033[1m\t%s\033[0m\n", "a\n");
}

static void a_text_that_is_cut_by_precision_need_not_end(void **state)
{
	const char four[4] = {'a', 'b', '\n', 'd'};
	assert_put("ab\\nd", "%.*s", 4, four);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(control_characters_are_shown_as_escapes),
	        cmocka_unit_test(names_in_any_language_are_unchanged),
	        cmocka_unit_test(the_middle_of_a_long_text_is_left_out),
	        cmocka_unit_test(no_character_is_cut),
	        cmocka_unit_test(other_conversions_are_printfs),
	        cmocka_unit_test(widths_and_precisions_are_those_of_what_is_shown),
	        cmocka_unit_test(the_formats_own_newlines_and_colours_stay),
	        cmocka_unit_test(a_text_that_is_cut_by_precision_need_not_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
