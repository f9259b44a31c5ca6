/* How far a mistyped word is from one that is meant. */
#ifndef GM_CLI_EDIT_DISTANCE_H
#define GM_CLI_EDIT_DISTANCE_H

#include <stddef.h>

/* Levenshtein's distance in bytes; words longer than 63 bytes are infinitely far. */
size_t gm_edit_distance(const char *a, const char *b);

#endif
