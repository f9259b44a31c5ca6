#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

uint32_t gm_strings_add(struct gm_strings *strings, const char *text)
{
	if (!text)
		return 0;
	uint64_t hash = gm_hash_bytes(text, strlen(text), 0) | 1;
	for (;; hash += 2) { /* other strings with the same hash come next */
		bool is_new;
		uint64_t *slot = gm_map_put(&strings->by_hash, hash, &is_new);
		if (!slot)
			return 0;
		if (!is_new && *slot != 0 && strcmp(strings->items.items[*slot - 1], text) == 0)
			return (uint32_t)*slot;
		if (!is_new && *slot != 0)
			continue;
		char *copy = strdup(text);
		if (!copy || !gm_array_push(&strings->items, copy)) {
			free(copy);
			return 0;
		}
		*slot = strings->items.count;
		return (uint32_t)*slot;
	}
}

const char *gm_strings_at(const struct gm_strings *strings, uint32_t number)
{
	return number ? strings->items.items[number - 1] : "";
}

void gm_strings_deinit(struct gm_strings *strings)
{
	for (size_t i = 0; i < strings->items.count; i++)
		free(strings->items.items[i]);
	gm_array_deinit(&strings->items);
	gm_map_deinit(&strings->by_hash);
}
