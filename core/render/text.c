#include "render/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/put.h"
#include "log/log.h"

const char *gm_text_path(const char *path)
{
	static const char *const packages[] = {"/site-packages/", "/dist-packages/"};
	for (size_t i = 0; i < 2; i++) {
		const char *found = strstr(path, packages[i]);
		if (found)
			return found + strlen(packages[i]);
	}
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
static int width_of(const char *text)
{
	int width = 0;
	for (; *text; text++)
		width += (*text & 0xc0) != 0x80;
	return width;
}

static void put_row(const struct gm_table *table, char *const *cells, const int *widths,
        const struct gm_style *style, FILE *out)
{
	int used = 0;
	for (size_t i = 0; i < table->columns; i++) {
		const char *text = cells[i];
		int pad = widths[i] - width_of(text);
		bool last = i + 1 == table->columns;
		if (i) {
			fputs("  ", out);
			used += 2;
		}
		if (table->alignment[i] == 'r')
			gm_put(out, "%*s%s", pad, "", text);
		else if (!last)
			gm_put(out, "%s%*s", text, pad, "");
		else if (style->columns > used + 8 && width_of(text) > style->columns - used &&
		         (int)strlen(text) == width_of(text))
			gm_put(out, "%.*s...", style->columns - used - 3, text);
		else
			gm_put(out, "%s", text);
		used += widths[i];
	}
	fputc('\n', out);
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
