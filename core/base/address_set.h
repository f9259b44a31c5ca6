/*
 * A set of addresses (multiples of 8) that, once all are in, gives each a number: 0, 1, 2 ... by
 * address.
 *
 * One bit for each 8 bytes of address space, in chunks that are made where something is: a million
 * objects of one heap take some megabytes and a look-up touches two or three cache lines, where a
 * table from address to number would take tens of megabytes and miss the cache each time. Most
 * look-ups ask for what is not in the set.
 *
 * After gm_address_set_number() several threads may query it at once; nothing may be added then.
 */
#ifndef GM_BASE_ADDRESS_SET_H
#define GM_BASE_ADDRESS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum {
	GM_ADDRESS_CHUNK_SHIFT = 18, /* a chunk stands for 256 KiB */
	GM_ADDRESS_CHUNK_WORDS = 1 << (GM_ADDRESS_CHUNK_SHIFT - 3 - 6),
};

struct gm_address_chunk {
	uint64_t key;   /* address >> shift, plus 1 */
	uint32_t first; /* members in lower chunks */
	uint64_t bits[GM_ADDRESS_CHUNK_WORDS];
	uint16_t before[GM_ADDRESS_CHUNK_WORDS]; /* members in lower words of this chunk */
};

struct gm_address_set {
	struct gm_address_chunk **slots;  /* by hash; NULL: free */
	size_t capacity;                  /* a power of two, or 0 */
	struct gm_address_chunk **chunks; /* by address, once numbered */
	size_t chunk_count;
	size_t count; /* members */
	struct gm_address_chunk *last;
};

enum { GM_NO_ADDRESS_NUMBER = UINT32_MAX };

void gm_address_set_deinit(struct gm_address_set *set);
/* False: no memory. *ret_new (may be NULL) is false where it was there; an unaligned address is
 * never in. */
bool gm_address_set_add(struct gm_address_set *set, uint64_t address, bool *ret_new);
/* Not once they have numbers. */
void gm_address_set_remove(struct gm_address_set *set, uint64_t address);
/* Adds all members of `other`, which is empty then. False: no memory, and some are in neither. */
bool gm_address_set_take(struct gm_address_set *set, struct gm_address_set *other);
/* The members that `without` does not have, in any order, at most `most`; returns how many there
 * are. */
size_t gm_address_set_difference(const struct gm_address_set *set,
        const struct gm_address_set *without, uint64_t *ret_addresses, size_t most);
/* Gives the numbers; false: no memory. */
bool gm_address_set_number(struct gm_address_set *set);
/* The addresses with numbers from `first` on, `count` of them, which must be there. */
void gm_address_set_list(
        const struct gm_address_set *set, size_t first, size_t count, uint64_t *ret_addresses);

static inline size_t gm_address_chunk_slot(const struct gm_address_set *set, uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (set->capacity - 1);
}

/* Before they are numbered too. */
static inline bool gm_address_set_has(const struct gm_address_set *set, uint64_t address)
{
	uint64_t key = (address >> GM_ADDRESS_CHUNK_SHIFT) + 1;
	uint64_t bit = address >> 3 & (GM_ADDRESS_CHUNK_WORDS * 64 - 1);
	if (set->capacity == 0 || address & 7)
		return false;
	for (size_t i = gm_address_chunk_slot(set, key); set->slots[i];
	        i = (i + 1) & (set->capacity - 1))
		if (set->slots[i]->key == key)
			return set->slots[i]->bits[bit / 64] >> bit % 64 & 1;
	return false;
}

/* `near`: where the last one was; what is asked for is often near it. */
static inline uint32_t gm_address_set_find_near(
        const struct gm_address_set *set, uint64_t address, const struct gm_address_chunk **near)
{
	uint64_t key = (address >> GM_ADDRESS_CHUNK_SHIFT) + 1;
	const struct gm_address_chunk *chunk = *near;
	if (set->capacity == 0 || address & 7)
		return GM_NO_ADDRESS_NUMBER;
	if (!chunk || chunk->key != key) {
		for (size_t i = gm_address_chunk_slot(set, key);;
		        i = (i + 1) & (set->capacity - 1)) {
			chunk = set->slots[i];
			if (!chunk)
				return GM_NO_ADDRESS_NUMBER;
			if (chunk->key == key)
				break;
		}
		*near = chunk;
	}
	uint64_t bit = address >> 3 & (GM_ADDRESS_CHUNK_WORDS * 64 - 1);
	uint64_t word = chunk->bits[bit / 64];
	if (!(word >> bit % 64 & 1))
		return GM_NO_ADDRESS_NUMBER;
	return chunk->first + chunk->before[bit / 64] +
	       (uint32_t)__builtin_popcountll(word & ((UINT64_C(1) << bit % 64) - 1));
}

static inline uint32_t gm_address_set_find(const struct gm_address_set *set, uint64_t address)
{
	const struct gm_address_chunk *near = NULL;
	return gm_address_set_find_near(set, address, &near);
}

#endif
