#include "base/address_set.h"

#include <stdlib.h>
#include <string.h>

void gm_address_set_deinit(struct gm_address_set *set)
{
	for (size_t i = 0; i < set->capacity; i++)
		free(set->slots[i]);
	free(set->slots);
	free(set->chunks);
	*set = (struct gm_address_set){0};
}

static bool grow(struct gm_address_set *set)
{
	struct gm_address_set grown = *set;
	grown.capacity = set->capacity ? set->capacity * 2 : 256;
	grown.slots = calloc(grown.capacity, sizeof(struct gm_address_chunk *));
	if (!grown.slots)
		return false;
	for (size_t i = 0; i < set->capacity; i++) {
		if (!set->slots[i])
			continue;
		size_t j = gm_address_chunk_slot(&grown, set->slots[i]->key);
		while (grown.slots[j])
			j = (j + 1) & (grown.capacity - 1);
		grown.slots[j] = set->slots[i];
	}
	free(set->slots);
	*set = grown;
	return true;
}

static struct gm_address_chunk *chunk_of(struct gm_address_set *set, uint64_t address)
{
	uint64_t key = (address >> GM_ADDRESS_CHUNK_SHIFT) + 1;
	if (set->last && set->last->key == key)
		return set->last;
	if ((set->chunk_count + 1) * 4 > set->capacity && !grow(set))
		return NULL;
	size_t i = gm_address_chunk_slot(set, key);
	while (set->slots[i] && set->slots[i]->key != key)
		i = (i + 1) & (set->capacity - 1);
	if (!set->slots[i]) {
		set->slots[i] = calloc(1, sizeof(*set->slots[i]));
		if (!set->slots[i])
			return NULL;
		set->slots[i]->key = key;
		set->chunk_count++;
	}
	return set->last = set->slots[i];
}

bool gm_address_set_add(struct gm_address_set *set, uint64_t address, bool *ret_new)
{
	bool is_new = false;
	if (!(address & 7)) {
		struct gm_address_chunk *chunk = chunk_of(set, address);
		if (!chunk)
			return false;
		uint64_t bit = address >> 3 & (GM_ADDRESS_CHUNK_WORDS * 64 - 1);
		is_new = !(chunk->bits[bit / 64] >> bit % 64 & 1);
		chunk->bits[bit / 64] |= UINT64_C(1) << bit % 64;
		set->count += is_new;
	}
	if (ret_new)
		*ret_new = is_new;
	return true;
}

static struct gm_address_chunk *find(const struct gm_address_set *set, uint64_t key)
{
	if (set->capacity == 0)
		return NULL;
	size_t i = gm_address_chunk_slot(set, key);
	while (set->slots[i] && set->slots[i]->key != key)
		i = (i + 1) & (set->capacity - 1);
	return set->slots[i];
}

void gm_address_set_remove(struct gm_address_set *set, uint64_t address)
{
	struct gm_address_chunk *chunk = find(set, (address >> GM_ADDRESS_CHUNK_SHIFT) + 1);
	uint64_t bit = address >> 3 & (GM_ADDRESS_CHUNK_WORDS * 64 - 1);
	if (!chunk || address & 7 || !(chunk->bits[bit / 64] >> bit % 64 & 1))
		return;
	chunk->bits[bit / 64] &= ~(UINT64_C(1) << bit % 64);
	set->count--;
}

/* A chunk of which the set has no address yet is moved as a whole. */
static bool take_chunk(struct gm_address_set *set, struct gm_address_chunk *chunk)
{
	if ((set->chunk_count + 1) * 4 > set->capacity && !grow(set))
		return false;
	size_t i = gm_address_chunk_slot(set, chunk->key);
	while (set->slots[i])
		i = (i + 1) & (set->capacity - 1);
	set->slots[i] = chunk;
	set->chunk_count++;
	return true;
}

bool gm_address_set_take(struct gm_address_set *set, struct gm_address_set *other)
{
	for (size_t i = 0; i < other->capacity; i++) {
		struct gm_address_chunk *from = other->slots[i];
		struct gm_address_chunk *into = from ? find(set, from->key) : NULL;
		if (!from)
			continue;
		if (!into && !take_chunk(set, from))
			return false;
		for (size_t w = 0; w < GM_ADDRESS_CHUNK_WORDS; w++) {
			uint64_t more = into ? from->bits[w] & ~into->bits[w] : from->bits[w];
			set->count += (size_t)__builtin_popcountll(more);
			if (into)
				into->bits[w] |= more;
		}
		if (into)
			free(from);
		other->slots[i] = NULL;
	}
	gm_address_set_deinit(other);
	return true;
}

size_t gm_address_set_difference(const struct gm_address_set *set,
        const struct gm_address_set *without, uint64_t *ret_addresses, size_t most)
{
	size_t count = 0;
	for (size_t i = 0; i < set->capacity; i++) {
		const struct gm_address_chunk *chunk = set->slots[i];
		const struct gm_address_chunk *other = chunk ? find(without, chunk->key) : NULL;
		for (size_t w = 0; chunk && w < GM_ADDRESS_CHUNK_WORDS; w++) {
			uint64_t left = chunk->bits[w] & ~(other ? other->bits[w] : 0);
			uint64_t start = ((chunk->key - 1) << GM_ADDRESS_CHUNK_SHIFT) + w * 512;
			for (; left; left &= left - 1, count++)
				if (count < most)
					ret_addresses[count] =
					        start + (uint64_t)__builtin_ctzll(left) * 8;
		}
	}
	return count;
}

static int by_key(const void *a, const void *b)
{
	const struct gm_address_chunk *left = *(struct gm_address_chunk *const *)a;
	const struct gm_address_chunk *right = *(struct gm_address_chunk *const *)b;
	return left->key < right->key ? -1 : left->key > right->key;
}

bool gm_address_set_number(struct gm_address_set *set)
{
	size_t count = 0;
	uint32_t first = 0;
	free(set->chunks);
	set->chunks = malloc((set->chunk_count + 1) * sizeof(struct gm_address_chunk *));
	if (!set->chunks)
		return false;
	for (size_t i = 0; i < set->capacity; i++)
		if (set->slots[i])
			set->chunks[count++] = set->slots[i];
	if (count > 1)
		qsort(set->chunks, count, sizeof(struct gm_address_chunk *), by_key);
	for (size_t i = 0; i < count; i++) {
		struct gm_address_chunk *chunk = set->chunks[i];
		uint32_t within = 0;
		chunk->first = first;
		for (size_t w = 0; w < GM_ADDRESS_CHUNK_WORDS; w++) {
			chunk->before[w] = (uint16_t)within;
			within += (uint32_t)__builtin_popcountll(chunk->bits[w]);
		}
		first += within;
	}
	return true;
}

void gm_address_set_list(
        const struct gm_address_set *set, size_t first, size_t count, uint64_t *ret_addresses)
{
	size_t low = 0, high = set->chunk_count, done = 0;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;
		if (set->chunks[middle]->first <= first)
			low = middle;
		else
			high = middle;
	}
	for (; low < set->chunk_count && done < count; low++) {
		const struct gm_address_chunk *chunk = set->chunks[low];
		uint64_t start = (chunk->key - 1) << GM_ADDRESS_CHUNK_SHIFT;
		size_t number = chunk->first;
		for (size_t w = 0; w < GM_ADDRESS_CHUNK_WORDS && done < count; w++) {
			for (uint64_t left = chunk->bits[w]; left && done < count;
			        left &= left - 1) {
				if (number++ >= first)
					ret_addresses[done++] = start + w * 512 +
					                        (uint64_t)__builtin_ctzll(left) * 8;
			}
		}
	}
}
