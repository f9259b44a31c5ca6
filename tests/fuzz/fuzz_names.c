/*
 * Any bytes as names: what is printed for people has the lines that the formats have, is UTF-8, and
 * holds no character that acts, however the names are cut, padded or put into tables.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "base/visible.h"
#include "render/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINE_MOST = 8 * (GM_VISIBLE_MOST * 4 + 64) };

/* Said here once more, apart from who is tested: what a terminal acts on, or turns the direction of
 * a line. */
static void check_bytes(const unsigned char *at)
{
	for (; *at; at++) {
		if ((*at < 0x20 && *at != '\n') || *at == 0x7f)
			abort();
		if (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0) /* C1 */
			abort();
		if (at[0] == 0xd8 && at[1] == 0x9c) /* U+061C */
			abort();
		if (at[0] != 0xe2)
			continue;
		if (at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f ||         /* U+200E, F */
		                             (at[2] >= 0xa8 && at[2] <= 0xae))) /* U+2028 to 202E */
			abort();
		if (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9) /* U+2066 to 2069 */
			abort();
	}
}

static void check(const char *text, size_t lines)
{
	check_bytes((const unsigned char *)text);
	char escape[GM_ESCAPE_TEXT];
	size_t length = strlen(text), from = 0;
	for (size_t i = 0; i < length;) {
		bool acts = false;
		size_t step = gm_visible_next(text + i, length - i, &acts, escape);
		if (acts && text[i] != '\n')
			abort();
		if (acts) {
			if (i - from > LINE_MOST || lines-- == 0)
				abort();
			from = i + 1;
		}
		i += step;
	}
	if (lines)
		abort();
}

/* Rows, and lines on which the last column of a row goes on. The first column has four characters,
 * and none is in it there, so that no name makes a row. */
static void check_table(const char *text, size_t rows, bool goes_on)
{
	static const char blank[] = "      "; /* the first column, and the space before the next */
	size_t lines = 0, first = 0;
	for (const char *at = text; at && *at; lines++) {
		first += strncmp(at, blank, strlen(blank)) != 0;
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (first != rows || (lines != rows && !goes_on))
		abort();
	check(text, lines);
}

static void put_printed(const char *name, const char *other, int number)
{
	char *text = gm_put_string("%s\n%*s|%-9s|%.*s\n%c%c %u\n", name, number % 40, other, name,
	        number % 70, other, number, number >> 8, (unsigned)number);
	check(text, 3);
	/* shown once more it is the same, but for its own lines */
	char *line = strndup(text, strcspn(text, "\n"));
	char *again = gm_put_string("%s", line);
	if (strlen(line) <= GM_VISIBLE_MOST && strcmp(line, again) != 0)
		abort();
	free(again);
	free(line);
	free(text);
}

static void put_table(const char *name, const char *other, int columns)
{
	static const char *const heads[] = {"size", "name", "where"};
	const struct gm_style style = {columns % 120, false};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	struct gm_table *table = gm_table_create(heads, "rll");
	for (int i = 0; i < 2; i++) {
		gm_table_cell(table, "%d", i);
		gm_table_cell(table, "%s", i ? name : other);
		gm_table_cell(table, "%s:%d in %s", gm_text_path(name), i, other);
	}
	if (!gm_table_finish(table, &style, out))
		abort();
	fclose(out);
	check_table(text, 3, style.columns != 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	int number = data[0] | data[1] << 8 | data[2] << 16;
	size_t middle = 3 + data[3] * (size - 3) / 256;
	char *name = strndup((const char *)data + 3, middle - 3);
	char *other = strndup((const char *)data + middle, size - middle);
	put_printed(name, other, number);
	put_table(name, other, number);
	free(name);
	free(other);
	return 0;
}
