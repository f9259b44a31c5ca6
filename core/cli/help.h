/* Help texts, and the nearest word to a mistyped one. */
#ifndef GM_CLI_HELP_H
#define GM_CLI_HELP_H

#include <stddef.h>

/* Levenshtein's distance in bytes; words longer than 63 bytes are infinitely far. */
size_t gm_edit_distance(const char *a, const char *b);

#endif
