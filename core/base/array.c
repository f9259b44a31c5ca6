#include "base/array.h"

#include <stdint.h>

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
	*items = moved;
	*capacity = grown;
	return true;
}
