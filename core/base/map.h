/*
 * The hash table of gpumem: from 64-bit keys, mostly addresses, to 64-bit values. Open addressing:
 * millions of entries, no allocation per entry. Key 0 is not allowed (no object lives there).
 */
#ifndef GM_BASE_MAP_H
#define GM_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/hash.h"

struct gm_map_slot {
	uint64_t key, value;
};

struct gm_map {
	struct gm_map_slot *slots;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

static inline void gm_map_deinit(struct gm_map *map)
{
	free(map->slots);
	*map = (struct gm_map){0};
}

/* The value of `key`, or NULL. The pointer holds until the next put. */
static inline uint64_t *gm_map_find(const struct gm_map *map, uint64_t key)
{
	if (map->capacity == 0 || key == 0)
		return NULL;
	for (size_t i = gm_hash_mix(key) & (map->capacity - 1);;
	        i = (i + 1) & (map->capacity - 1)) {
		if (map->slots[i].key == key)
			return &map->slots[i].value;
		if (map->slots[i].key == 0)
			return NULL;
	}
}

static inline bool gm_map_grow(struct gm_map *map)
{
	struct gm_map grown = {.capacity = map->capacity ? map->capacity * 2 : 256};
	grown.slots = calloc(grown.capacity, sizeof(*grown.slots));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->slots[i].key == 0)
			continue;
		size_t j = gm_hash_mix(map->slots[i].key) & (grown.capacity - 1);
		while (grown.slots[j].key != 0)
			j = (j + 1) & (grown.capacity - 1);
		grown.slots[j] = map->slots[i];
	}
	grown.count = map->count;
	free(map->slots);
	*map = grown;
	return true;
}

/* The value slot of `key`, made with value 0 where it was not there; NULL: no memory (or key 0).
 * *ret_new may be NULL. */
static inline uint64_t *gm_map_put(struct gm_map *map, uint64_t key, bool *ret_new)
{
	if (key == 0)
		return NULL;
	if ((map->count + 1) * 2 > map->capacity && !gm_map_grow(map))
		return NULL;
	size_t i = gm_hash_mix(key) & (map->capacity - 1);
	while (map->slots[i].key != key && map->slots[i].key != 0)
		i = (i + 1) & (map->capacity - 1);
	bool is_new = map->slots[i].key == 0;
	if (is_new) {
		map->slots[i] = (struct gm_map_slot){key, 0};
		map->count++;
	}
	if (ret_new)
		*ret_new = is_new;
	return &map->slots[i].value;
}

#endif
