/*
 * Text in which no name can act.
 *
 * Names of files, functions, variables, keys, kernels and processes come from strangers. Printed as
 * they are, they can move a terminal's cursor, turn the direction of a line, or end it and go on
 * with a line that looks like an answer of ours.
 *
 * Shown as an escape: controls ("\n", "\x1b", "\u0085"), characters that turn the direction of text
 * or cannot be seen
 * ("\u202e", "\u200b"), separators of lines, and bytes that are no UTF-8 ("\xff"). All else stands
 * as it is, a backslash as well: to show a text twice changes nothing. Of a text longer than
 * GM_VISIBLE_MOST bytes the middle is left out, with a mark
 * ("[... 64,000 bytes ...]").
 *
 * What prints for people uses base/put.h; JSON has escapes of its own.
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
