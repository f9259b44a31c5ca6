#include "ask/recording/leak.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"

void gm_leaks_deinit(struct gm_leaks *leaks)
{
	for (size_t i = 0; i < leaks->count; i++) {
		if (leaks->items[i].holder)
			gm_holder_deinit(&leaks->items[i].holder->first);
		free(leaks->items[i].holder);
	}
	free(leaks->items);
	*leaks = (struct gm_leaks){0};
}

struct gm_error *gm_leaks_add(struct gm_leaks *leaks, const struct gm_leak *leak)
{
	/* a power of two means that it is full */
	if (!(leaks->count & (leaks->count - 1))) {
		size_t capacity = leaks->count ? leaks->count * 2 : 1;
		struct gm_leak *items = realloc(leaks->items, capacity * sizeof(*items));
		if (!items)
			return &gm_error_no_memory;
		leaks->items = items;
	}
	leaks->items[leaks->count++] = *leak;
	return NULL;
}
