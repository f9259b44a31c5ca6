#include "render/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/put.h"
#include "base/visible.h"

void gm_svg_number(double number, FILE *out)
{
	long hundredths = lround(number * 100);
	if (hundredths < 0)
		fputc('-', out);
	hundredths = labs(hundredths);
	gm_put(out, "%ld", hundredths / 100);
	if (hundredths % 10)
		gm_put(out, ".%02ld", hundredths % 100);
	else if (hundredths % 100)
		gm_put(out, ".%ld", hundredths % 100 / 10);
}

void gm_svg_set(const char *name, double number, FILE *out)
{
	gm_put(out, " %s=\"", name);
	gm_svg_number(number, out);
	fputc('"', out);
}

/* XML does not allow these characters, not even as entities (XML 1.0, 2.2): U+FFFE and U+FFFF. */
static bool is_no_character(const char *bytes, size_t size)
{
	return size == 3 &&
	       (memcmp(bytes, "\xef\xbf\xbe", 3) == 0 || memcmp(bytes, "\xef\xbf\xbf", 3) == 0);
}

static void put_character(const char *bytes, size_t size, FILE *out)
{
	switch (bytes[0]) {
	case '&':
		fputs("&amp;", out);
		return;
	case '<':
		fputs("&lt;", out);
		return;
	case '>':
		fputs("&gt;", out);
		return;
	case '"':
		fputs("&quot;", out);
		return;
	case '\'':
		fputs("&#39;", out);
		return;
	default:
		if (is_no_character(bytes, size))
			fputs("\\ufffe", out);
		else
			fwrite(bytes, 1, size, out);
	}
}

size_t gm_svg_text(size_t most, FILE *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	/* printed as visible text already: it contains no control characters */
	_cleanup_free_ char *text = gm_vput_string(format, args);
	va_end(args);
	size_t length = text ? strlen(text) : 0, written = 0;
	for (size_t i = 0; i < length; written++) {
		char escape[GM_ESCAPE_TEXT];
		bool acts;
		if (written == most) {
			fputs("\u2026", out);
			return written + 1;
		}
		size_t size = gm_visible_next(text + i, length - i, &acts, escape);
		put_character(text + i, size, out);
		i += size;
	}
	return written;
}
