/* Which word was meant by a mistyped one. */
#ifndef GM_BASE_NEAREST_WORD_H
#define GM_BASE_NEAREST_WORD_H

#include <stddef.h>
#include <stdint.h>

/*
 * How far `typed` is from `word`: Levenshtein's distance in bytes, without regard to case, hyphens
 * and underscores; 1 if `word` begins with it. SIZE_MAX: it is another word (a word of up to 3
 * letters may have one mistake, of up to 5 two, a longer one three), or one has more than 63
 * letters.
 */
size_t gm_word_distance(const char *typed, const char *word);

#endif
