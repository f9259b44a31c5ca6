/*
 * gm_put() prints all text for users. It is printf(), except that arguments of `%s` and `%c` are
 * escaped as in base/visible.h, each with its own length limit. The format itself is trusted and
 * contains newlines and colours.
 *
 * The compiler accepts only literals as the format, and tests/checks allows no other printing
 * function in the rooms that print, so new code cannot forget the escaping.
 */
#ifndef GM_BASE_PUT_H
#define GM_BASE_PUT_H

#include <stdarg.h>
#include <stdio.h>

/* Conversions: s, c, p, %, those of integers with any length, those of double. */
void gm_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gm_vput(FILE *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* The same as a new string; NULL: no memory. The caller frees it. */
char *gm_put_string(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *gm_vput_string(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

#endif
