#include "base/put.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/visible.h"

/* One conversion of a format: "%-*.3ld". */
struct conversion {
	const char *start, *end;
	bool width_given, precision_given, left; /* given by an argument; "-" */
	int width, precision;                    /* -1: none */
	int longs;                               /* of an integer: 1 "l", 2 "ll", 'z', 'j', 't' */
	char kind;
};

static int number(const char **at)
{
	int value = 0;
	for (; **at >= '0' && **at <= '9'; ++*at)
		value = value < 100000 ? 10 * value + **at - '0' : value;
	return value;
}

/* The next one; kind 0: no further one. */
static struct conversion next(const char *format)
{
	struct conversion one = {.width = -1, .precision = -1};
	const char *at = strchr(format, '%');
	if (!at)
		return one;
	one.start = at++;
	for (; *at && strchr("-+ #0'", *at); at++)
		one.left |= *at == '-';
	if (*at == '*') {
		one.width_given = true;
		at++;
	} else if (*at >= '1' && *at <= '9')
		one.width = number(&at);
	if (*at == '.') {
		at++;
		one.precision_given = *at == '*';
		if (one.precision_given)
			at++;
		else
			one.precision = number(&at);
	}
	for (; *at && strchr("hlzjt", *at); at++)
		one.longs = *at == 'l' ? one.longs + 1 : *at == 'h' ? 0 : *at;
	one.kind = *at;
	one.end = *at ? at + 1 : at;
	return one;
}

/* The arguments of a conversion: `va_list` in a struct, so that it is passed by reference on every
 * platform. */
struct arguments {
	va_list list;
};

static void take_sizes(struct conversion *one, struct arguments *arguments)
{
	if (one->width_given)
		one->width = va_arg(arguments->list, int);
	if (one->width_given && one->width < 0) {
		one->left = true;
		one->width = -one->width;
	}
	if (one->precision_given)
		one->precision = va_arg(arguments->list, int);
}

/* The width of an intmax_t in every case: that is what fprintf() gets. */
static intmax_t take_integer(const struct conversion *one, struct arguments *arguments)
{
	switch (one->longs) {
	case 0:
		return va_arg(arguments->list, int);
	case 1:
		return va_arg(arguments->list, long);
	case 2:
		return va_arg(arguments->list, long long);
	case 'z':
		return (intmax_t)va_arg(arguments->list, size_t);
	case 't':
		return va_arg(arguments->list, ptrdiff_t);
	default:
		return va_arg(arguments->list, intmax_t);
	}
}

static size_t text_length(const struct conversion *one, const char *text)
{
	return one->precision < 0 ? strlen(text) : strnlen(text, (size_t)one->precision);
}

/* Whether no text among the arguments contains characters that would act on a terminal. */
static bool all_plain(const char *format, struct arguments *arguments)
{
	for (struct conversion one = next(format); one.kind; one = next(one.end)) {
		take_sizes(&one, arguments);
		if (one.kind == 's') {
			const char *text = va_arg(arguments->list, const char *);
			if (text && !gm_is_visible(text, text_length(&one, text)))
				return false;
		} else if (one.kind == 'c') {
			char character = (char)take_integer(&one, arguments);
			if (!gm_is_visible(&character, 1))
				return false;
		} else if (strchr("diuxXo", one.kind)) {
			take_integer(&one, arguments);
		} else if (strchr("fFeEgGaA", one.kind)) {
			(void)va_arg(arguments->list, double);
		} else if (one.kind == 'p') {
			(void)va_arg(arguments->list, void *);
		} else if (one.kind != '%') {
			return false; /* then put_one() ends it */
		}
	}
	return true;
}

/* The columns of a text that is made visible already. */
static size_t width_of(const char *text, size_t length)
{
	size_t width = 0;
	for (size_t i = 0; i < length; i++)
		width += (text[i] & 0xc0) != 0x80;
	return width;
}

static void put_text(const struct conversion *one, const char *text, size_t length, FILE *out)
{
	char *shown = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&shown, &size);
	if (!memory)
		return;
	gm_put_visible(text, length, memory);
	fclose(memory);
	size_t width = shown ? width_of(shown, size) : 0;
	int pad = one->width > 0 && width < (size_t)one->width ? one->width - (int)width : 0;
	fprintf(out, "%*s", one->left ? 0 : pad, "");
	fwrite(shown, 1, shown ? size : 0, out);
	fprintf(out, "%*s", one->left ? pad : 0, "");
	free(shown);
}

/* Calls fprintf() with a format made of the conversion's own letters and sizes. False: an unknown
 * conversion. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static bool put_other(const struct conversion *one, struct arguments *arguments, FILE *out)
{
	char flags[8] = "", format[20];
	size_t count = 0;
	for (const char *at = one->start + 1; strchr("-+ #0'", *at) && count < sizeof(flags) - 2;
	        at++)
		flags[count++] = *at;
	if (one->left)
		flags[count++] = '-';
	flags[count] = '\0';
	int width = one->width > 0 ? one->width : 0;
	bool whole = strchr("diuxXo", one->kind) != NULL;
	snprintf(format, sizeof(format), "%%%s*.*%s%c", flags, whole ? "j" : "", one->kind);
	if (whole) {
		intmax_t value = take_integer(one, arguments);
		if (one->longs == 0 && !strchr("di", one->kind))
			value = (unsigned)value;
		fprintf(out, format, width, one->precision, value);
	} else if (strchr("fFeEgGaA", one->kind)) {
		fprintf(out, format, width, one->precision, va_arg(arguments->list, double));
	} else if (one->kind == 'p') {
		fprintf(out, "%p", va_arg(arguments->list, void *));
	} else if (one->kind == '%') {
		fputc('%', out);
	} else {
		return false;
	}
	return true;
}
#pragma GCC diagnostic pop

static bool put_one(const struct conversion *one, struct arguments *arguments, FILE *out)
{
	if (one->kind == 's') {
		const char *text = va_arg(arguments->list, const char *);
		text = text ? text : "(null)";
		put_text(one, text, text_length(one, text), out);
		return true;
	}
	if (one->kind == 'c') {
		char character = (char)take_integer(one, arguments);
		put_text(one, &character, 1, out);
		return true;
	}
	return put_other(one, arguments, out);
}

void gm_vput(FILE *out, const char *format, va_list args)
{
	struct arguments arguments;
	va_copy(arguments.list, args);
	bool plain = all_plain(format, &arguments);
	va_end(arguments.list);
	if (plain) {
		vfprintf(out, format, args);
		return;
	}
	va_copy(arguments.list, args);
	for (struct conversion one = next(format); one.kind; one = next(format)) {
		fwrite(format, 1, (size_t)(one.start - format), out);
		take_sizes(&one, &arguments);
		if (!put_one(&one, &arguments, out))
			break;
		format = one.end;
	}
	va_end(arguments.list);
	if (!next(format).kind)
		fputs(format, out);
}

void gm_put(FILE *out, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	gm_vput(out, format, args);
	va_end(args);
}

char *gm_vput_string(const char *format, va_list args)
{
	char *text = NULL;
	size_t size = 0;
	FILE *memory = open_memstream(&text, &size);
	if (!memory)
		return NULL;
	gm_vput(memory, format, args);
	bool whole = !ferror(memory);
	if (fclose(memory) == 0 && whole)
		return text;
	free(text);
	return NULL;
}

char *gm_put_string(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = gm_vput_string(format, args);
	va_end(args);
	return text;
}
