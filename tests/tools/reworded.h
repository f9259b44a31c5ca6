/*
 * Included before each source of core/render in a build of its own, whose sentences are all worded
 * differently: in every format and text that render/ prints, letters are replaced.
 * tests/e2e/test_reworded.py compares its answers with the real ones: no field of the JSON but the
 * sentences may differ.
 */
#ifndef GM_TESTS_REWORDED_H
#define GM_TESTS_REWORDED_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/put.h"

int reworded_fprintf(FILE *out, const char *format, ...);
int reworded_fputs(const char *text, FILE *out);
int reworded_snprintf(char *buffer, size_t size, const char *format, ...);
int reworded_vasprintf(char **text, const char *format, va_list arguments);
void reworded_put(FILE *out, const char *format, ...);

#undef fprintf
#undef fputs
#undef snprintf
#undef vasprintf
#define fprintf reworded_fprintf
#define fputs reworded_fputs
#define snprintf reworded_snprintf
#define vasprintf reworded_vasprintf
#define gm_put reworded_put

#endif
