/* The scanner's inner loop. */
#ifndef GM_HOLDERS_SCAN_WORDS_H
#define GM_HOLDERS_SCAN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GM_SCAN_MAX_RANGES = 4 };

/* [first, last], both included. */
struct gm_scan_range {
	uint64_t first, last;
};

/*
 * Indexes of words in one of the ranges, at most `max` of them; returns their number.
 * Pass 0 for `simd` to forbid AVX2 (for tests).
 */
size_t gm_scan_words(const uint64_t *words, size_t count, const struct gm_scan_range *ranges,
        size_t range_count, bool simd, uint32_t *ret_indexes, size_t max);

#endif
