/*
 * The scanner's inner loop. A word w is in [first, last] if w - first <= last - first, unsigned.
 * The vector instructions have only signed comparison, so 2^63 is added to both sides. GCC's vector
 * extensions express this once for both widths; the compiler generates AVX2 or SSE2.
 */
#include "holders/heap/scan_words.h"

#include <string.h>

enum {
	BATCH = 32,  /* words that are compared together */
	LINE = 8,    /* words of a cache line */
	AHEAD = 256, /* how many words ahead to prefetch: the processor does not prefetch beyond a
	                page's end */
};

typedef int64_t vector __attribute__((vector_size(32)));
typedef uint64_t unsigned_vector __attribute__((vector_size(32))); /* wraps around */

/* The words of one batch, after something in it has matched. */
static size_t collect(const uint64_t *words, size_t start, size_t end,
        const struct gm_scan_range *ranges, size_t range_count, uint32_t *ret_indexes, size_t max)
{
	size_t found = 0;
	for (size_t i = start; i < end; i++) {
		for (size_t r = 0; r < range_count; r++) {
			if (words[i] - ranges[r].first > ranges[r].last - ranges[r].first)
				continue;
			if (found == max)
				return found;
			ret_indexes[found++] = (uint32_t)i;
			break;
		}
	}
	return found;
}

static inline __attribute__((always_inline)) bool batch_has_hit(
        const uint64_t *words, const unsigned_vector *low, const vector *span, size_t range_count)
{
	vector any = {0};
	for (size_t i = 0; i < BATCH / 4; i++) {
		unsigned_vector value;
		memcpy(&value, words + i * 4, sizeof(value));
		for (size_t r = 0; r < range_count; r++)
			any |= (vector)(value - low[r]) <= span[r];
	}
	return (any[0] | any[1] | any[2] | any[3]) != 0;
}

static inline __attribute__((always_inline)) void set_bounds(
        struct gm_scan_range range, unsigned_vector *ret_low, vector *ret_span)
{
	const uint64_t sign = UINT64_C(1) << 63;
	for (size_t lane = 0; lane < 4; lane++) {
		(*ret_low)[lane] = range.first + sign;
		(*ret_span)[lane] = (int64_t)((range.last - range.first) + sign);
	}
}

static inline __attribute__((always_inline)) void around(const struct gm_scan_range *ranges,
        size_t range_count, unsigned_vector *ret_low, vector *ret_span)
{
	struct gm_scan_range all = ranges[0];
	for (size_t r = 1; r < range_count; r++) {
		all.first = ranges[r].first < all.first ? ranges[r].first : all.first;
		all.last = ranges[r].last > all.last ? ranges[r].last : all.last;
	}
	set_bounds(all, ret_low, ret_span);
}

static inline __attribute__((always_inline)) size_t scan_batches(const uint64_t *words,
        size_t count, const struct gm_scan_range *ranges, size_t range_count, uint32_t *ret_indexes,
        size_t max)
{
	unsigned_vector low[GM_SCAN_MAX_RANGES];
	vector span[GM_SCAN_MAX_RANGES];
	for (size_t r = 0; r < range_count; r++)
		set_bounds(ranges[r], &low[r], &span[r]);
	/* of several ranges, first the range that contains all of them: few words are near the
	 * libraries */
	unsigned_vector around_low = {0};
	vector around_span = {0};
	if (range_count > 1)
		around(ranges, range_count, &around_low, &around_span);
	size_t found = 0, i = 0;
	for (; i + BATCH <= count && found < max; i += BATCH) {
		for (size_t line = i + AHEAD; line < i + AHEAD + BATCH; line += LINE)
			__builtin_prefetch(
			        (const void *)((uintptr_t)words + line * sizeof(*words)));
		if ((range_count == 1 || batch_has_hit(words + i, &around_low, &around_span, 1)) &&
		        batch_has_hit(words + i, low, span, range_count))
			found += collect(words, i, i + BATCH, ranges, range_count,
			        ret_indexes + found, max - found);
	}
	if (i < count && found < max)
		found += collect(
		        words, i, count, ranges, range_count, ret_indexes + found, max - found);
	return found;
}

__attribute__((target("avx2"))) static size_t scan_avx2(const uint64_t *words, size_t count,
        const struct gm_scan_range *ranges, size_t range_count, uint32_t *ret_indexes, size_t max)
{
	if (range_count == 1)
		return scan_batches(words, count, ranges, 1, ret_indexes, max);
	if (range_count == 2)
		return scan_batches(words, count, ranges, 2, ret_indexes, max);
	return scan_batches(words, count, ranges, range_count, ret_indexes, max);
}

static size_t scan_baseline(const uint64_t *words, size_t count, const struct gm_scan_range *ranges,
        size_t range_count, uint32_t *ret_indexes, size_t max)
{
	/* SSE2 has no 64-bit comparison for two words: comparing single words is as fast */
	return collect(words, 0, count, ranges, range_count, ret_indexes, max);
}

size_t gm_scan_words(const uint64_t *words, size_t count, const struct gm_scan_range *ranges,
        size_t range_count, bool simd, uint32_t *ret_indexes, size_t max)
{
	if (range_count > GM_SCAN_MAX_RANGES)
		range_count = GM_SCAN_MAX_RANGES;
	if (simd && __builtin_cpu_supports("avx2"))
		return scan_avx2(words, count, ranges, range_count, ret_indexes, max);
	return scan_baseline(words, count, ranges, range_count, ret_indexes, max);
}
