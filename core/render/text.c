#include "render/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/packages.h"
#include "base/put.h"
#include "log/log.h"

const char *gm_text_path(const char *path)
{
	size_t rest;
	const char *part = gm_packages_part(path, strlen(path), &rest);
	if (part)
		return part;
	char here[4096];
	if (!getcwd(here, sizeof(here)))
		return path;
	size_t length = strlen(here);
	return length > 1 && strncmp(path, here, length) == 0 && path[length] == '/'
	               ? path + length + 1
	               : path;
}

const char *gm_text_device(uint8_t type, int16_t index, char buffer[GM_SIZE_TEXT])
{
	const char *name = gm_device_type_name(type);
	if (type == 0)
		snprintf(buffer, GM_SIZE_TEXT, "cpu");
	else if (name)
		snprintf(buffer, GM_SIZE_TEXT, "%s:%d", name, index);
	else if (type == GM_LOG_DEVICE_UNKNOWN)
		snprintf(buffer, GM_SIZE_TEXT, "device %d", index);
	else if (type == GM_LOG_DEVICE_EXTERNAL)
		snprintf(buffer, GM_SIZE_TEXT, "cuda:%u beside PyTorch", (unsigned)index & 127);
	else if (type == GM_LOG_DEVICE_PINNED)
		snprintf(buffer, GM_SIZE_TEXT, "pinned");
	else
		snprintf(buffer, GM_SIZE_TEXT, "device type %u:%d", type, index);
	return buffer;
}

enum { LEFT_OUT = -1 }; /* the width of a column that is not shown */

struct gm_table {
	const char *heads[GM_TABLE_COLUMNS]; /* texts that remain */
	char alignment[GM_TABLE_COLUMNS];
	bool headed;
	size_t columns;
	GM_ARRAY(char *) cells;
	bool failed;
};

struct gm_table *gm_table_create(const char *const *heads, const char *alignment)
{
	struct gm_table *table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->columns = strnlen(alignment, GM_TABLE_COLUMNS);
	table->headed = heads;
	if (heads)
		memcpy(table->heads, heads, table->columns * sizeof(*heads));
	memcpy(table->alignment, alignment, table->columns);
	return table;
}

void gm_table_cell(struct gm_table *table, const char *format, ...)
{
	if (!table || table->failed)
		return;
	va_list args;
	va_start(args, format);
	char *text = gm_vput_string(format, args);
	va_end(args);
	if (!text || !gm_array_push(&table->cells, text)) {
		table->failed = true;
		free(text);
	}
}

/* Columns that a UTF-8 string takes: its bytes without continuation bytes. */
static int width_before(const char *text, size_t size)
{
	int width = 0;
	for (size_t i = 0; i < size; i++)
		width += (text[i] & 0xc0) != 0x80;
	return width;
}

static int width_of(const char *text)
{
	return width_before(text, strlen(text));
}

/* A text in the last column: on a terminal it goes on below, at the same column, rather than beyond
 * the edge. Words are not cut. */
static void put_last(const char *text, int at, const struct gm_style *style, FILE *out)
{
	enum { LEAST = 24 }; /* less room is not worth it */
	int room = style->columns - at;
	for (bool more = true; more;) {
		size_t length = strlen(text);
		if (style->columns && room >= LEAST && width_of(text) > room) {
			size_t end = 0;
			for (size_t i = 1; i < length; i++) {
				if (text[i] != ' ')
					continue;
				bool fits = width_before(text, i) <= room;
				if (fits || !end)
					end = i;
				if (!fits)
					break;
			}
			length = end ? end : length;
		}
		gm_put(out, "%.*s", (int)length, text);
		text += length;
		text += strspn(text, " ");
		more = *text;
		if (more)
			gm_put(out, "\n%*s", at, "");
	}
}

static void put_row(const struct gm_table *table, char *const *cells, const int *widths,
        const struct gm_style *style, FILE *out)
{
	int used = 0;
	bool first = true;
	for (size_t i = 0; i < table->columns; i++) {
		const char *text = cells[i];
		int pad = widths[i] - width_of(text);
		bool last = i + 1 == table->columns;
		if (widths[i] == LEFT_OUT)
			continue;
		if (!first) {
			fputs("  ", out);
			used += 2;
		}
		first = false;
		if (tolower(table->alignment[i]) == 'r')
			gm_put(out, "%*s%s", pad, "", text);
		else if (!last)
			gm_put(out, "%s%*s", text, pad, "");
		else
			put_last(text, used, style, out);
		used += widths[i];
	}
	fputc('\n', out);
}

/* Leaves optional columns out, from the last one, until the table fits the terminal. Of a text in
 * the last column some room is enough. */
static void make_fit(const struct gm_table *table, int columns, int *widths)
{
	enum { LAST = 24 };
	for (size_t i = table->columns; columns && i-- > 0;) {
		int width = -2;
		for (size_t j = 0; j < table->columns; j++) {
			bool flows = j + 1 == table->columns && table->alignment[j] == 'l';
			if (widths[j] != LEFT_OUT)
				width += 2 + (flows && widths[j] > LAST ? LAST : widths[j]);
		}
		if (width <= columns)
			return;
		if (table->alignment[i] == 'R' || table->alignment[i] == 'L')
			widths[i] = LEFT_OUT;
	}
}

bool gm_table_finish(struct gm_table *table, const struct gm_style *style, FILE *out)
{
	if (!table)
		return false;
	bool whole = !table->failed && table->cells.count % table->columns == 0;
	int widths[16] = {0};
	for (size_t i = 0; whole && i < table->columns && i < 16; i++) {
		widths[i] = table->headed ? width_of(table->heads[i]) : 0;
		for (size_t j = i; j < table->cells.count; j += table->columns)
			if (width_of(table->cells.items[j]) > widths[i])
				widths[i] = width_of(table->cells.items[j]);
	}
	if (whole)
		make_fit(table, style->columns, widths);
	if (whole && table->headed && table->cells.count) {
		fputs(style->colors ? "\033[1m" : "", out);
		put_row(table, (char *const *)table->heads, widths, style, out);
		fputs(style->colors ? "\033[0m" : "", out);
	}
	for (size_t i = 0; whole && i < table->cells.count; i += table->columns)
		put_row(table, table->cells.items + i, widths, style, out);
	for (size_t i = 0; i < table->cells.count; i++)
		free(table->cells.items[i]);
	gm_array_deinit(&table->cells);
	free(table);
	return whole;
}
