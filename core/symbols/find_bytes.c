#include "symbols/find_bytes.h"

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Roughly how rare a byte is in mangled names: capitals and the end of a string, then digits. */
static unsigned rarity(char byte)
{
	if (byte >= 'A' && byte <= 'Z')
		return strchr("EIKLNSTZ", byte) ? 2 : 4;
	if (byte >= '0' && byte <= '9')
		return byte > '2' ? 2 : 1;
	return byte == 0 || strchr("jqxz", byte) ? 3 : 0;
}

/* The rarest byte except the one at `other`. */
static size_t rarest(const char *wanted, size_t length, size_t other)
{
	size_t best = other == 0 && length > 1 ? 1 : 0;
	for (size_t i = 0; i < length; i++)
		if (i != other && rarity(wanted[i]) > rarity(wanted[best]))
			best = i;
	return best;
}

static size_t find_slowly(
        const char *bytes, size_t size, const char *wanted, size_t length, size_t from)
{
	const char *found = memmem(bytes + from, size - from, wanted, length);
	return found ? (size_t)(found - bytes) : SIZE_MAX;
}

__attribute__((target("avx2"))) static size_t find_avx2(
        const char *bytes, size_t size, const char *wanted, size_t length, size_t from)
{
	enum { WIDTH = 32 };
	size_t one = rarest(wanted, length, SIZE_MAX), two = rarest(wanted, length, one);
	size_t last = one > two ? one : two;
	const __m256i first_byte = _mm256_set1_epi8(wanted[one]);
	const __m256i second_byte = _mm256_set1_epi8(wanted[two]);
	for (; size - from >= last + WIDTH && size - from >= length; from += WIDTH) {
		__m256i first = _mm256_loadu_si256((const __m256i *)(bytes + from + one));
		__m256i second = _mm256_loadu_si256((const __m256i *)(bytes + from + two));
		uint32_t both = (uint32_t)_mm256_movemask_epi8(
		        _mm256_and_si256(_mm256_cmpeq_epi8(first, first_byte),
		                _mm256_cmpeq_epi8(second, second_byte)));
		for (; both; both &= both - 1) {
			size_t at = from + (size_t)__builtin_ctz(both);
			if (size - at >= length && memcmp(bytes + at, wanted, length) == 0)
				return at;
		}
	}
	return find_slowly(bytes, size, wanted, length, from);
}

size_t gm_find_bytes(const char *bytes, size_t size, const char *wanted, size_t length, size_t from)
{
	if (length == 0 || length > size || from > size - length)
		return SIZE_MAX;
	return __builtin_cpu_supports("avx2") ? find_avx2(bytes, size, wanted, length, from)
	                                      : find_slowly(bytes, size, wanted, length, from);
}
