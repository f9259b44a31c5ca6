/*
 * The text of answers: tables of random cells laid out as a plain reading of the rules says, the
 * names of devices and paths, sizes, and the tables of questions about small recordings.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask/phases.h"
#include "ask/peak.h"
#include "ask/segments.h"
#include "render/answers.h"
#include "render/memory.h"
#include "log/log.h"
#include "random.h"
#include "render/phases.h"
#include "render/steps.h"
#include "render/text.h"
#include "synthetic.h"

enum { COLUMNS = 4, ROWS = 12, CELL = 48, LINE = 1024 };

/* --- a table ---------------------------------------------------------------------------------- */

/* Letters of one, two and three bytes; each takes one column. */
static void random_text(struct random *random, bool plain, char text[CELL])
{
	static const char *const letters[] = {"a", "B", "7", " ", "é", "→"};
	size_t used = 0, length = random_below(random, plain ? 46 : 12);
	for (size_t i = 0; i < length; i++) {
		const char *letter = letters[random_below(random, plain ? 4 : 6)];
		strcpy(text + used, letter);
		used += strlen(letter);
	}
	text[used] = 0;
}

static size_t width_of(const char *text)
{
	size_t width = 0;
	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static void pad(char *line, size_t count)
{
	size_t length = strlen(line);
	memset(line + length, ' ', count);
	line[length + count] = 0;
}

/* The bytes of a text that go into this line: up to the last space before `room` columns, or the
 * first one at all. */
static size_t part_of(const char *text, size_t room)
{
	size_t best = 0;
	if (width_of(text) <= room)
		return strlen(text);
	for (size_t i = 1; text[i]; i++) {
		char before[CELL];
		snprintf(before, sizeof(before), "%.*s", (int)i, text);
		if (text[i] == ' ' && (!best || width_of(before) <= room))
			best = i;
	}
	return best ? best : strlen(text);
}

/* A row as the rules say: two spaces between columns, no spaces at the end of a left-aligned last
 * column, and a last column that does not fit goes on below, if 24 columns are left for it. */
static void expected_row(char (*cells)[CELL], const char *alignment, const size_t *widths,
        size_t columns, int terminal, char line[LINE])
{
	line[0] = 0;
	for (size_t i = 0; i < columns; i++) {
		size_t missing = widths[i] - width_of(cells[i]);
		bool last = i + 1 == columns;
		strcat(line, i ? "  " : "");
		size_t used = width_of(line);
		if (alignment[i] == 'r')
			pad(line, missing);
		const char *rest = cells[i];
		while (last && alignment[i] == 'l' && terminal >= (int)used + 24) {
			size_t part = part_of(rest, (size_t)terminal - used);
			strncat(line, rest, part);
			rest += part;
			rest += strspn(rest, " ");
			if (!*rest)
				break;
			strcat(line, "\n");
			pad(line, used);
		}
		strcat(line, rest);
		if (alignment[i] == 'l' && !last)
			pad(line, missing);
	}
	strcat(line, "\n");
}

static char *table_text(const char *const *heads, const char *alignment, char (*cells)[CELL],
        size_t count, const struct gm_style *style)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct gm_table *table = gm_table_create(heads, alignment);
	for (size_t i = 0; i < count; i++)
		gm_table_cell(table, "%s", cells[i]);
	assert_true(gm_table_finish(table, style, out));
	assert_int_equal(fclose(out), 0);
	return text;
}

static void a_table_is_laid_out_by_its_widest_cells(void **state)
{
	size_t continued = 0;
	for (uint64_t round = 0; round < random_rounds(400); round++) {
		struct random random = random_of_round(round);
		size_t columns = 1 + random_below(&random, COLUMNS),
		       rows = random_below(&random, ROWS);
		bool plain = random_once_in(&random, 2), headed = random_once_in(&random, 2);
		const struct gm_style style = {
		        random_once_in(&random, 3) ? 0 : (int)random_below(&random, 75),
		        random_once_in(&random, 2)};
		char alignment[COLUMNS + 1] = "", heads[COLUMNS][CELL];
		static char cells[COLUMNS * ROWS][CELL];
		const char *head_texts[COLUMNS];
		size_t widths[COLUMNS];
		for (size_t i = 0; i < columns; i++) {
			alignment[i] = random_once_in(&random, 2) ? 'r' : 'l';
			random_text(&random, plain, heads[i]);
			head_texts[i] = heads[i];
			widths[i] = headed ? width_of(heads[i]) : 0;
		}
		for (size_t i = 0; i < columns * rows; i++) {
			random_text(&random, plain, cells[i]);
			if (width_of(cells[i]) > widths[i % columns])
				widths[i % columns] = width_of(cells[i]);
		}
		char line[LINE], expected[(ROWS + 1) * LINE] = "";
		if (headed && rows) {
			expected_row(heads, alignment, widths, columns, style.columns, line);
			strcat(strcat(strcat(expected, style.colors ? "\033[1m" : ""), line),
			        style.colors ? "\033[0m" : "");
		}
		for (size_t i = 0; i < rows; i++) {
			expected_row(cells + i * columns, alignment, widths, columns, style.columns,
			        line);
			continued += strchr(line, '\n')[1] != 0;
			strcat(expected, line);
		}
		char *text = table_text(
		        headed ? head_texts : NULL, alignment, cells, columns * rows, &style);
		if (strcmp(text, expected) != 0)
			fail_msg("round %ju:\n%s\nis not\n%s", (uintmax_t)round, text, expected);
		free(text);
	}
	assert_true(continued > random_rounds(400) / 100);
}

static void optional_columns_are_left_out_from_the_last_one_until_the_table_fits(void **state)
{
	static const char *const heads[] = {"aaaa", "bbbb", "cccc", "dddd"};
	static const char *const texts[] = {
	        "aaaa  bbbb  cccc  dddd\n", "aaaa  bbbb  dddd\n", "aaaa  dddd\n"};
	static char cells[4][CELL] = {"1", "2", "3", "4"};
	for (int columns = 0; columns < 40; columns++) {
		const struct gm_style style = {columns, false};
		char *text = table_text(heads, "rRLr", cells, 4, &style);
		int shown = columns == 0 || columns >= 22 ? 0 : columns >= 16 ? 1 : 2;
		assert_memory_equal(text, texts[shown], strlen(texts[shown]));
		free(text);
	}
}

/* A row that lacks a cell would shift all behind it. */
static void a_table_that_is_not_whole_is_not_written(void **state)
{
	static const char *const heads[] = {"a", "b"};
	const struct gm_style style = {0};
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct gm_table *table = gm_table_create(heads, "ll");
	for (int i = 0; i < 3; i++)
		gm_table_cell(table, "%d", i);
	assert_false(gm_table_finish(table, &style, out));
	assert_false(gm_table_finish(NULL, &style, out));
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "");
	free(text);
}

static void cells_show_control_characters_and_are_as_wide_as_they_show(void **state)
{
	char cells[4][CELL] = {"a\033[31mb", "1", "x", "2"};
	const struct gm_style style = {0};
	char *text = table_text(NULL, "ll", cells, 4, &style);
	assert_null(strchr(text, '\033'));
	const char *second = strchr(text, '\n') + 1;
	assert_int_equal(strchr(text, '1') - text > 0, 1);
	assert_int_equal(strchr(second, '2') - second, strstr(text, "  1") + 2 - text);
	free(text);
}

/* --- names ------------------------------------------------------------------------------------ */

static void devices_have_the_names_that_pytorch_gives_them(void **state)
{
	static const struct {
		uint8_t type;
		int16_t index;
		const char *name;
	} all[] = {{0, 0, "cpu"}, {0, 3, "cpu"}, {1, 0, "cuda:0"}, {1, 15, "cuda:15"},
	        {12, 1, "xpu:1"}, {GM_LOG_DEVICE_PINNED, 0, "pinned"},
	        {GM_LOG_DEVICE_EXTERNAL, 2, "cuda:2 beside PyTorch"},
	        {GM_LOG_DEVICE_UNKNOWN, 4, "device 4"}, {99, 1, "device type 99:1"}};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		char name[GM_SIZE_TEXT];
		assert_string_equal(gm_text_device(all[i].type, all[i].index, name), all[i].name);
	}
}

static void paths_are_distinguished_from_packages_and_the_current_folder(void **state)
{
	char here[4096], path[5000];
	assert_non_null(getcwd(here, sizeof(here)));
	assert_string_equal(
	        gm_text_path("/opt/lib/python3.13/site-packages/torch/nn/modules/linear.py"),
	        "torch/nn/modules/linear.py");
	assert_string_equal(gm_text_path("/usr/lib/python3/dist-packages/a.py"), "a.py");
	snprintf(path, sizeof(path), "%s/train.py:3 in train", here);
	assert_string_equal(gm_text_path(path), "train.py:3 in train");
	snprintf(path, sizeof(path), "%s-other/train.py", here);
	assert_string_equal(gm_text_path(path), path);
	assert_string_equal(gm_text_path("/elsewhere/train.py"), "/elsewhere/train.py");
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Two lines that allocate; one block is freed. */
static void record(struct synthetic *log, struct gm_context *context)
{
	synthetic_begin(log);
	uint32_t code = synthetic_code(log, "/srv/train.py", "train", NULL, 0);
	uint32_t first = synthetic_stack(log, synthetic_frame(log, code, 3, 0, NULL), 0, 0, 0);
	uint32_t second = synthetic_stack(log, synthetic_frame(log, code, 14, 0, NULL), 0, 0, 0);
	synthetic_event(log, GM_SEGMENT_ALLOC, 0x7f0000000000, 2 << 20, 0);
	synthetic_event(log, GM_ALLOC, 0x7f0000000000, 1 << 20, first);
	synthetic_event(log, GM_ALLOC, 0x7f0000100000, 512, second);
	synthetic_free(log, 0x7f0000000000, 1 << 20, second);
	synthetic_model(log, context);
}

struct text {
	char *bytes;
	size_t size;
	FILE *out;
};

static FILE *begin_text(struct text *text)
{
	return text->out = open_memstream(&text->bytes, &text->size);
}

static void expect_text(struct text *text, struct gm_error *error, const char *expected)
{
	assert_null(error);
	assert_int_equal(fclose(text->out), 0);
	assert_string_equal(text->bytes, expected);
	free(text->bytes);
}

static const struct gm_style style_80 = {80, false};

static void the_text_of_events_has_a_line_for_each(void **state)
{
	struct synthetic log;
	struct gm_context context;
	struct gm_model *model;
	struct text text;
	record(&log, &context);
	assert_null(gm_context_model(&context, &model));
	FILE *out = begin_text(&text);
	expect_text(&text, gm_render_events_text(model, 0, 4, false, &style_80, out),
	        "#0  segment_alloc   0x7f0000000000      2.00 MiB  cuda:0           other    \n"
	        "#1  alloc           0x7f0000000000      1.00 MiB  cuda:0           init       "
	        "train.py:3 train\n"
	        "#2  alloc           0x7f0000100000         512 B  cuda:0           init       "
	        "train.py:14 train\n"
	        "#3  free_requested  0x7f0000000000      1.00 MiB  cuda:0           init       "
	        "train.py:14 train\n"
	        "#4  free_completed  0x7f0000000000      1.00 MiB  cuda:0           init       "
	        "train.py:14 train\n");
	gm_context_deinit(&context);
}

static void the_text_of_the_peak_has_its_groups_and_their_sums(void **state)
{
	struct synthetic log;
	struct gm_context context;
	struct gm_peak peak;
	struct text text;
	const struct gm_blocks_options by = {.by = GM_BY_LINE};
	record(&log, &context);
	assert_null(gm_ask_peak(&context, &by, false, &peak));
	FILE *out = begin_text(&text);
	expect_text(&text,
	        gm_render_peak_text(&peak.blocks, &peak.modules, &peak.secondary, &style_80, out),
	        "cuda:0: 1.00 MiB at the peak (1,049,088 bytes) in 2 blocks after event 2 (init)\n"
	        "    size      bytes  blocks  allocated at\n"
	        "1.00 MiB  1,048,576       1  /srv/train.py:3 in train\n"
	        "   512 B        512       1  /srv/train.py:14 in train\n"
	        "by category: temporary 1.00 MiB, unknown 512 B\n"
	        "by phase: init 1.00 MiB\n");
	gm_peak_deinit(&peak);
	gm_context_deinit(&context);
}

static void the_text_of_phases_has_those_that_occur(void **state)
{
	struct synthetic log;
	struct gm_context context;
	struct gm_phases phases;
	struct text text;
	record(&log, &context);
	assert_null(gm_ask_phases(&context, 0, &phases));
	FILE *out = begin_text(&text);
	expect_text(&text, gm_render_phases_text(&phases, &style_80, out),
	        "cuda:0: phases of 0 steps\n"
	        "phase  events  allocated  blocks   kept  peak in it  at  step\n"
	        "other       1        0 B       0    0 B         0 B  #0      \n"
	        "init        4   1.00 MiB       2  512 B    1.00 MiB  #2      \n"
	        "allocated: in total. kept: the part that outlived its phase.\n");
	gm_context_deinit(&context);
}

static void the_text_of_segments_has_their_free_parts(void **state)
{
	struct synthetic log;
	struct gm_context context;
	struct gm_memory memory;
	struct text text;
	const struct gm_segments_options options = {.device = -1};
	record(&log, &context);
	assert_null(gm_ask_segments(&context, &options, &memory));
	FILE *out = begin_text(&text);
	expect_text(&text, gm_render_segments_text(&memory, NULL, &style_80, out),
	        "cuda:0: 2.00 MiB reserved (2,097,152 bytes) in 1 segment after event 4; 512 B "
	        "allocated, 2.00 MiB free\n"
	        "segment             size   used      free  largest free  holes  pool   stream\n"
	        "0x7f0000000000  2.00 MiB  512 B  2.00 MiB      1.00 MiB      2  small  default\n"
	        "fragmentation: 2.00 MiB free in 2 parts, the largest 1.00 MiB (50 % of it)\n");
	gm_memory_deinit(&memory);
	gm_context_deinit(&context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_table_is_laid_out_by_its_widest_cells),
	        cmocka_unit_test(
	                optional_columns_are_left_out_from_the_last_one_until_the_table_fits),
	        cmocka_unit_test(a_table_that_is_not_whole_is_not_written),
	        cmocka_unit_test(cells_show_control_characters_and_are_as_wide_as_they_show),
	        cmocka_unit_test(devices_have_the_names_that_pytorch_gives_them),
	        cmocka_unit_test(paths_are_distinguished_from_packages_and_the_current_folder),
	        cmocka_unit_test(the_text_of_events_has_a_line_for_each),
	        cmocka_unit_test(the_text_of_the_peak_has_its_groups_and_their_sums),
	        cmocka_unit_test(the_text_of_phases_has_those_that_occur),
	        cmocka_unit_test(the_text_of_segments_has_their_free_parts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
