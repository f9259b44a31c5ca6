/* Binary search in arrays that are sorted by address. */
#ifndef GM_BASE_SEARCH_H
#define GM_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The last of `count` items whose address, a uint64_t at the beginning of each item of `size` bytes, is at most
 * `address`; NULL: there is none. Whether it reaches up to `address` is the caller's to see.
 */
static inline const void *gm_search_address(
        const void *items, size_t count, size_t size, uint64_t address)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t its;
		memcpy(&its, (const char *)items + middle * size, sizeof(its));
		if (its <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? (const char *)items + (low - 1) * size : NULL;
}

#endif
