/* Which word was meant by a mistyped one. */
#ifndef GM_BASE_NEAREST_WORD_H
#define GM_BASE_NEAREST_WORD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * How far `typed` is from `word`: Levenshtein's distance in bytes, without regard to case, hyphens
 * and underscores; 1 if `word` begins with it. SIZE_MAX: it is another word (a word of up to 3
 * letters may have one mistake, of up to 5 two, a longer one three), or one has more than 63
 * letters.
 */
size_t gm_word_distance(const char *typed, const char *word);

/* The word of `known`, which ends with NULL, that is nearest to the first `length` bytes of
 * `typed`; NULL: none is near. */
const char *gm_word_nearest(const char *typed, size_t length, const char *const *known);

/* The index of `text` in `known`, which ends with NULL. Else an error: which word was meant, or
 * which there are. `what`: the option, "--by"; NULL: the caller adds
 * it. */
struct gm_error *gm_word_choose(
        const char *what, const char *text, const char *const *known, size_t *ret_index);
/* The same for each word of a list with commas. */
struct gm_error *gm_words_check(const char *what, const char *text, const char *const *known);

#endif
