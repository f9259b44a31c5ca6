/*
 * What clang's analyzer is to know of arrays (tests/tools/static_analysis.py): where there is room
 * for an item there are items.
 */
#ifndef GM_ANALYZER_ARRAY_H
#define GM_ANALYZER_ARRAY_H

#include_next <base/array.h>

static inline bool gm_analyzer_there(const void *items)
{
	if (!items)
		__builtin_unreachable();
	return true;
}

#undef gm_array_reserve
#define gm_array_reserve(array, more)                                                        \
	(gm_array_grow((void **)&(array)->items, &(array)->capacity, (array)->count, (more), \
	         sizeof(*(array)->items)) &&                                                 \
	        gm_analyzer_there((array)->items))

#endif
