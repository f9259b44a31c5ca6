/* See reworded.h. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/put.h"
#include "render/group_text.h"

int reworded_fprintf(FILE *out, const char *format, ...);
int reworded_fputs(const char *text, FILE *out);
int reworded_snprintf(char *buffer, size_t size, const char *format, ...);
int reworded_vasprintf(char **text, const char *format, va_list arguments);
void reworded_put(FILE *out, const char *format, ...);
const char *__real_gm_text_group(enum gm_group_kind kind, const char *key);
const char *__wrap_gm_text_group(enum gm_group_kind kind, const char *key);

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#ifndef __clang__ /* which has no such warning */
#pragma GCC diagnostic ignored "-Wsuggest-attribute=format"
#endif

/* Each letter becomes the 13th after it; what a conversion consists of, and what has an escape of a
 * terminal, stays. */
static char *reword(const char *format)
{
	char *made = strdup(format);
	if (!made)
		abort();
	for (char *at = made; *at && !strchr(format, 033); at++) {
		if (*at == '%') {
			at += 1 + strspn(at + 1, "#0- +'*.123456789hlzjtL");
			continue;
		}
		if (isalpha((unsigned char)*at)) {
			char first = isupper((unsigned char)*at) ? 'A' : 'a';
			*at = (char)(first + (*at - first + 13) % 26);
		}
	}
	return made;
}

/* Linked in the place of core/render/group_text.c's: keys stay, its own words do not. */
const char *__wrap_gm_text_group(enum gm_group_kind kind, const char *key)
{
	static const char *own[32];
	static char *words[32];
	const char *text = __real_gm_text_group(kind, key);
	if (text == key)
		return key;
	if ((size_t)kind >= sizeof(own) / sizeof(own[0]))
		abort();
	if (own[kind] != text) {
		free(words[kind]);
		words[kind] = reword(text);
		own[kind] = text;
	}
	return words[kind];
}

int reworded_fprintf(FILE *out, const char *format, ...)
{
	char *words = reword(format);
	va_list arguments;
	va_start(arguments, format);
	int length = vfprintf(out, words, arguments);
	va_end(arguments);
	free(words);
	return length;
}

int reworded_fputs(const char *text, FILE *out)
{
	char *words = reword(text);
	int result = fputs(words, out);
	free(words);
	return result;
}

int reworded_snprintf(char *buffer, size_t size, const char *format, ...)
{
	char *words = reword(format);
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(buffer, size, words, arguments);
	va_end(arguments);
	free(words);
	return length;
}

int reworded_vasprintf(char **text, const char *format, va_list arguments)
{
	char *words = reword(format);
	int length = vasprintf(text, words, arguments);
	free(words);
	return length;
}

void reworded_put(FILE *out, const char *format, ...)
{
	char *words = reword(format);
	va_list arguments;
	va_start(arguments, format);
	gm_vput(out, words, arguments);
	va_end(arguments);
	free(words);
}
