/*
 * A 64-bit hash for interning strings and stacks (FNV-1a with a final mix). Not for hostile keys
 * whose collisions would matter: every table that uses it compares the keys too.
 */
#ifndef GM_BASE_HASH_H
#define GM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t gm_hash_mix(uint64_t value)
{
	/* The finaliser of MurmurHash3 (public domain). */
	value ^= value >> 33;
	value *= UINT64_C(0xff51afd7ed558ccd);
	value ^= value >> 33;
	value *= UINT64_C(0xc4ceb9fe1a85ec53);
	return value ^ (value >> 33);
}

uint64_t gm_hash_bytes(const void *bytes, size_t length, uint64_t seed);

#endif
