/*
 * Sorts records by the address that each begins with: a radix sort, stable, 11 bits of the
 * addresses' differences at a time. Millions of addresses of one heap take three passes.
 */
#ifndef GM_BASE_SORT_H
#define GM_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { GM_SORT_BITS = 11, GM_SORT_BUCKETS = 1 << GM_SORT_BITS };

static inline __attribute__((always_inline)) uint64_t gm_sort_key(const void *record)
{
	uint64_t key;
	memcpy(&key, record, sizeof(key));
	return key;
}

/* `size` is to be a constant. `scratch` has as much room as `items`. */
static inline __attribute__((always_inline)) void gm_sort_by_address(
        void *items, void *scratch, size_t count, size_t size)
{
	unsigned char *from = items, *to = scratch;
	uint64_t low = UINT64_MAX, high = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t key = gm_sort_key(from + i * size);
		low = key < low ? key : low;
		high = key > high ? key : high;
	}
	if (count < 2)
		return;
	for (unsigned shift = 0; shift < 64 && (high - low) >> shift; shift += GM_SORT_BITS) {
		uint32_t starts[GM_SORT_BUCKETS] = {0};
		uint32_t at = 0;
		for (size_t i = 0; i < count; i++)
			starts[(gm_sort_key(from + i * size) - low) >> shift &
			        (GM_SORT_BUCKETS - 1)]++;
		for (size_t i = 0; i < GM_SORT_BUCKETS; i++) {
			uint32_t here = starts[i];
			starts[i] = at;
			at += here;
		}
		for (size_t i = 0; i < count; i++) {
			const unsigned char *record = from + i * size;
			uint64_t digit = (gm_sort_key(record) - low) >> shift;
			memcpy(to + (size_t)starts[digit & (GM_SORT_BUCKETS - 1)]++ * size, record,
			        size);
		}
		unsigned char *swapped = from;
		from = to;
		to = swapped;
	}
	if (from != items)
		memcpy(items, from, count * size);
}

#endif
