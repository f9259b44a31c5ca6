/*
 * Makes untrusted text safe to print.
 *
 * Names of files, functions, variables, keys, kernels and processes are untrusted. Printed as they
 * are, they can move a terminal's cursor, change the direction of a line, or end it and continue
 * with a line that looks like gpumem's own output.
 *
 * Escapes replace control characters ("\n", "\x1b", "\u0085"), characters that change the direction
 * of text or are invisible ("\u202e", "\u200b"), line separators, and bytes that are not UTF-8
 * ("\xff"). Everything else is unchanged, including backslashes, so applying it twice changes
 * nothing. A text longer than GM_VISIBLE_MOST bytes is shortened in the middle
 * ("[... 64,000 bytes ...]").
 *
 * Text output uses base/put.h; JSON has its own escapes.
 */
#ifndef GM_BASE_VISIBLE_H
#define GM_BASE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { GM_VISIBLE_MOST = 1024 };

/* `length` bytes, of which any may be 0. */
void gm_put_visible(const char *text, size_t length, FILE *out);
/* Whether it would be printed as it is. */
bool gm_is_visible(const char *text, size_t length);

/* The bytes at `text` that are one character, 1 to 4. `*ret_acts`: it is to be shown as
 * `escape`. */
enum { GM_ESCAPE_TEXT = 12 };
size_t gm_visible_next(
        const char *text, size_t length, bool *ret_acts, char escape[GM_ESCAPE_TEXT]);

#endif
