#include "image/pointer_free.h"

#include <immintrin.h>
#include <string.h>

enum { AT_ONCE = 64, STEP = 4096 };

bool gm_pointer_free_is_possible(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("aes");
}

/*
 * The hash consists of rounds of AES, which mix sixteen bytes in one instruction: four chains, each
 * over every fourth block of sixteen bytes. It must detect a change that a program makes; it need
 * not resist a deliberate collision.
 */
#define TARGET __attribute__((target("avx2,aes")))

struct looking {
	__m128i chains[4];
	__m256i low, high; /* one below the first address, and one after the last */
};

TARGET static bool look_at_step(struct looking *looking, const uint8_t *bytes, size_t size)
{
	__m256i any = _mm256_setzero_si256();
	__m128i a = looking->chains[0], b = looking->chains[1];
	__m128i c = looking->chains[2], d = looking->chains[3];
	for (size_t at = 0; at < size; at += AT_ONCE) {
		__m256i left = _mm256_load_si256((const __m256i *)(bytes + at));
		__m256i right = _mm256_load_si256((const __m256i *)(bytes + at + 32));
		/* signed: values with the highest bit set are below `low` */
		any = _mm256_or_si256(any, _mm256_and_si256(_mm256_cmpgt_epi64(left, looking->low),
		                                   _mm256_cmpgt_epi64(looking->high, left)));
		any = _mm256_or_si256(any, _mm256_and_si256(_mm256_cmpgt_epi64(right, looking->low),
		                                   _mm256_cmpgt_epi64(looking->high, right)));
		a = _mm_aesenc_si128(a, _mm256_castsi256_si128(left));
		b = _mm_aesenc_si128(b, _mm256_extracti128_si256(left, 1));
		c = _mm_aesenc_si128(c, _mm256_castsi256_si128(right));
		d = _mm_aesenc_si128(d, _mm256_extracti128_si256(right, 1));
	}
	looking->chains[0] = a;
	looking->chains[1] = b;
	looking->chains[2] = c;
	looking->chains[3] = d;
	return _mm256_testz_si256(any, any);
}

TARGET static void finish(const struct looking *looking, struct gm_pointer_free_mark *ret_mark)
{
	__m128i mark = _mm_set_epi64x(0x243f6a8885a308d3, 0x13198a2e03707344);
	for (int i = 0; i < 4; i++) {
		mark = _mm_aesenc_si128(mark, looking->chains[i]);
		mark = _mm_aesenc_si128(mark, looking->chains[i]);
	}
	mark = _mm_aesenc_si128(mark, mark);
	memcpy(ret_mark, &mark, sizeof(*ret_mark));
}

TARGET bool gm_pointer_free_look(
        const void *bytes, size_t size, uint64_t low, struct gm_pointer_free_mark *ret_mark)
{
	struct looking looking = {.low = _mm256_set1_epi64x((int64_t)(low - 1)),
	        .high = _mm256_set1_epi64x(INT64_C(1) << 47)};
	for (int i = 0; i < 4; i++)
		looking.chains[i] = _mm_set1_epi32(i + 1);
	for (size_t at = 0; at < size; at += STEP) {
		size_t step = size - at < STEP ? size - at : STEP;
		if (!look_at_step(&looking, (const uint8_t *)bytes + at, step))
			return false;
	}
	finish(&looking, ret_mark);
	return true;
}
