/*
 * Amounts: 64-bit numbers that saturate. GM_TOO_MUCH stands for all that does not fit, and stays
 * what it is in every further step, so that one check at the end is enough.
 */
#ifndef GM_ESTIMATE_AMOUNT_H
#define GM_ESTIMATE_AMOUNT_H

#include <stdint.h>

#define GM_TOO_MUCH ((uint64_t)INT64_MAX)

static inline uint64_t gm_plus(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) || sum > GM_TOO_MUCH ? GM_TOO_MUCH : sum;
}

static inline uint64_t gm_times(uint64_t a, uint64_t b)
{
	uint64_t product;
	return __builtin_mul_overflow(a, b, &product) || product > GM_TOO_MUCH ? GM_TOO_MUCH
	                                                                       : product;
}

/* Rounded up; `parts` > 0. */
static inline uint64_t gm_share(uint64_t a, uint64_t parts)
{
	return a == GM_TOO_MUCH ? a : a / parts + (a % parts != 0);
}

static inline uint64_t gm_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t gm_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
