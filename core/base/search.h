/* Binary search. */
#ifndef GM_BASE_SEARCH_H
#define GM_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The number of the first of `count` items for which `before`, an expression in `item` (an item's
 * number), is false; `count` where it is true for all. The items for which it is true come first.
 */
#define gm_partition_point(count, item, before)                  \
	__extension__({                                          \
		size_t low_ = 0, high_ = (count);                \
		while (low_ < high_) {                           \
			size_t item = low_ + (high_ - low_) / 2; \
			if (before)                              \
				low_ = item + 1;                 \
			else                                     \
				high_ = item;                    \
		}                                                \
		low_;                                            \
	})

/*
 * The last of `count` items whose address, a uint64_t at the beginning of each item of `size`
 * bytes, is at most `address`; NULL: there is none. Whether it reaches up to `address` is the
 * caller's to see.
 */
static inline const void *gm_search_address(
        const void *items, size_t count, size_t size, uint64_t address)
{
	uint64_t its;
	size_t behind = gm_partition_point(count, item,
	        (memcpy(&its, (const char *)items + item * size, sizeof(its)), its <= address));
	return behind > 0 ? (const char *)items + (behind - 1) * size : NULL;
}

#endif
