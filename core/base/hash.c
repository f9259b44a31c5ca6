#include "base/hash.h"

#include <string.h>

uint64_t gm_hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
	const unsigned char *cursor = bytes;
	uint64_t hash = seed ^ UINT64_C(0xcbf29ce484222325);
	for (; length >= 8; length -= 8, cursor += 8) {
		uint64_t word;
		memcpy(&word, cursor, 8);
		hash = (hash ^ word) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	for (; length > 0; length--, cursor++)
		hash = (hash ^ *cursor) * UINT64_C(0x100000001b3);
	return gm_hash_mix(hash);
}
