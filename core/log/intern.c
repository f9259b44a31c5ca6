#include "log/intern.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

void gm_intern_deinit(struct gm_intern *intern)
{
	free(intern->bytes);
	free(intern->ends);
	free(intern->slots);
	*intern = (struct gm_intern){0};
}

static bool grow_slots(struct gm_intern *intern)
{
	if (intern->count * 2 < intern->slot_count)
		return true;
	size_t grown = intern->slot_count ? intern->slot_count * 2 : 256;
	struct gm_intern_slot *slots = calloc(grown, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < intern->slot_count; i++) {
		if (!intern->slots[i].id)
			continue;
		size_t at = intern->slots[i].hash & (grown - 1);
		while (slots[at].id)
			at = (at + 1) & (grown - 1);
		slots[at] = intern->slots[i];
	}
	free(intern->slots);
	intern->slots = slots;
	intern->slot_count = grown;
	return true;
}

static bool same(const struct gm_intern *intern, uint32_t id, const void *bytes, size_t size)
{
	size_t start = id > 1 ? intern->ends[id - 2] : 0;
	return intern->ends[id - 1] - start == size &&
	       memcmp(intern->bytes + start, bytes, size) == 0;
}

uint32_t gm_intern_add(struct gm_intern *intern, const void *bytes, size_t size)
{
	if (!grow_slots(intern))
		return 0;
	uint32_t hash = (uint32_t)gm_hash_bytes(bytes, size, 0);
	size_t at = hash & (intern->slot_count - 1);
	for (; intern->slots[at].id; at = (at + 1) & (intern->slot_count - 1))
		if (intern->slots[at].hash == hash &&
		        same(intern, intern->slots[at].id, bytes, size))
			return intern->slots[at].id;
	if (intern->count >= UINT32_MAX - 1 ||
	        !gm_array_grow((void **)&intern->bytes, &intern->capacity, intern->size, size, 1) ||
	        !gm_array_grow((void **)&intern->ends, &intern->ends_capacity, intern->count, 1,
	                sizeof(*intern->ends)))
		return 0;
	memcpy(intern->bytes + intern->size, bytes, size);
	intern->size += size;
	intern->ends[intern->count++] = intern->size;
	intern->slots[at] = (struct gm_intern_slot){(uint32_t)intern->count, hash};
	return (uint32_t)intern->count;
}
