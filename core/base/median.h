/* Medians of numbers: of bytes over files, ranks, steps. */
#ifndef GM_BASE_MEDIAN_H
#define GM_BASE_MEDIAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The order of uint64_t, for qsort(). */
static inline int gm_by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return (left > right) - (left < right);
}

/* Sorts `count` values and returns the median of `all` numbers, one at least: these, and zeros. Of
 * the two in the middle it is the lower one, so that it is a figure of one of them. */
static inline uint64_t gm_median(uint64_t *values, size_t count, size_t all)
{
	size_t zeros = all - count, middle = (all - 1) / 2;
	qsort(values, count, sizeof(*values), gm_by_number);
	return middle < zeros ? 0 : values[middle - zeros];
}

#endif
