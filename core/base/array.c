#include "base/array.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

/* Large arrays are filled from beginning to end: huge pages avoid hundreds of page faults for each
 * megabyte. */
void gm_array_advise(void *items, size_t bytes)
{
	uintptr_t start = ((uintptr_t)items + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
	uintptr_t end = ((uintptr_t)items + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
	if (bytes >= 4 * (size_t)HUGE_PAGE && start < end)
		madvise((void *)start, end - start, MADV_HUGEPAGE);
}

bool gm_array_grow(void **items, size_t *capacity, size_t count, size_t more, size_t item_size)
{
	if (more > SIZE_MAX - count)
		return false;
	size_t needed = count + more;
	if (needed <= *capacity)
		return true;
	size_t grown = *capacity ? *capacity : 8;
	while (grown < needed) {
		if (grown > SIZE_MAX / 2)
			return false;
		grown *= 2;
	}
	if (grown > SIZE_MAX / item_size)
		return false;
	void *moved = realloc(*items, grown * item_size);
	if (!moved)
		return false;
	gm_array_advise(moved, grown * item_size);
	*items = moved;
	*capacity = grown;
	return true;
}

bool gm_array_extend(void **items, size_t *count, size_t *capacity, size_t index, size_t item_size)
{
	if (index < *count)
		return true;
	size_t more = index - *count + 1; /* 0: index is SIZE_MAX, and there are none */
	if (!more || !gm_array_grow(items, capacity, *count, more, item_size))
		return false;
	memset((char *)*items + *count * item_size, 0, more * item_size);
	*count += more;
	return true;
}
