/*
 * What people read is printed by gm_put(): printf, except that what comes by `%s` or `%c` is shown
 * as base/visible.h says, each within its own bound. What stands in the format is ours: newlines
 * and colours are put there.
 *
 * The compiler takes no format that is no literal, and tests/checks lets the rooms that print use
 * nothing else: so a new view cannot forget it.
 */
#ifndef GM_BASE_PUT_H
#define GM_BASE_PUT_H

#include <stdarg.h>
#include <stdio.h>

/* Conversions: s, c, p, %, those of integers with any length, those of double. */
void gm_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gm_vput(FILE *out, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* The same as a string of its own; NULL: no memory. The caller frees it. */
char *gm_put_string(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *gm_vput_string(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

#endif
