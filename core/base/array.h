/*
 * Growable arrays. The caller has `items`, `count` and `capacity` in its own struct; the macro
 * GM_ARRAY(type) declares it and gm_array_reserve() grows it. Growth doubles, so that N appends
 * cost O(N).
 */
#ifndef GM_BASE_ARRAY_H
#define GM_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define GM_ARRAY(type)           \
	struct {                 \
		type *items;     \
		size_t count;    \
		size_t capacity; \
	}

/* Reserves capacity for `more` further items of `item_size` bytes. False: no memory, nothing
 * changed. */
bool gm_array_grow(void **items, size_t *capacity, size_t count, size_t more, size_t item_size);

#define gm_array_reserve(array, more)                                                       \
	((more) <= (array)->capacity - (array)->count ||                                    \
	        gm_array_grow((void **)&(array)->items, &(array)->capacity, (array)->count, \
	                (more), sizeof(*(array)->items)))

/* Appends zeroed items until there is one at `index`, as a table by number needs it. False: no
 * memory, nothing changed. */
bool gm_array_extend(void **items, size_t *count, size_t *capacity, size_t index, size_t item_size);

#define gm_array_reach(array, index)                                                           \
	((index) < (array)->count ||                                                           \
	        gm_array_extend((void **)&(array)->items, &(array)->count, &(array)->capacity, \
	                (index), sizeof(*(array)->items)))

/* Advises the kernel that a large array, allocated elsewhere, will be filled completely. */
void gm_array_advise(void *items, size_t bytes);

/* Appends a value; false if there is no memory. */
#define gm_array_push(array, value) \
	(gm_array_reserve((array), 1) ? ((array)->items[(array)->count++] = (value), true) : false)

#define gm_array_deinit(array)                          \
	do {                                            \
		free((array)->items);                   \
		(array)->items = NULL;                  \
		(array)->count = (array)->capacity = 0; \
	} while (0)

#endif
