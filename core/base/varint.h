/*
 * Numbers in as few bytes as they need: LEB128, seven bits a byte, low ones first, bit 7 says that
 * more follow. At most ten bytes. Recordings and the agent's file are made of them. All of it is in
 * this header, as the agent takes it into programs that have nothing else of gpumem.
 */
#ifndef GM_BASE_VARINT_H
#define GM_BASE_VARINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *gm_put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

/* Small numbers of either sign become small ones without. */
static inline uint64_t gm_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t gm_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A place in a payload. Reading beyond the end, or a malformed varint, sets `bad` and gives 0. */
struct gm_cursor {
	const uint8_t *at, *end;
	bool bad;
};

/* Byte by byte; rarely needed, so it is no part of its callers. */
static __attribute__((noinline, unused)) uint64_t gm_get_varint_slow(struct gm_cursor *cursor)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (cursor->at >= cursor->end)
			break;
		uint8_t byte = *cursor->at++;
		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	cursor->bad = true;
	cursor->at = cursor->end;
	return 0;
}

/* The seven bits of each of up to eight bytes, moved together in three steps. */
static inline uint64_t gm_squeeze_varint(uint64_t word)
{
	word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
	word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
	return (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Up to eight bytes at once. A varint that is longer, or ends within the last bytes of a payload,
 * is read byte by byte. */
static inline uint64_t gm_get_varint(struct gm_cursor *cursor)
{
	const uint8_t *at = cursor->at;
	if (at < cursor->end && *at < 0x80) {
		cursor->at++;
		return *at;
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (cursor->end - at >= 8) {
		uint64_t word, last;
		memcpy(&word, at, sizeof(word));
		last = ~word & UINT64_C(0x8080808080808080); /* bytes that end a varint */
		if (last) {
			last &= -last;
			cursor->at += (__builtin_ctzll(last) >> 3) + 1;
			return gm_squeeze_varint(word & (last - 1));
		}
	}
#endif
	return gm_get_varint_slow(cursor);
}

static inline uint32_t gm_get_u32(struct gm_cursor *cursor)
{
	uint64_t value = gm_get_varint(cursor);
	if (value > UINT32_MAX)
		cursor->bad = true;
	return (uint32_t)value;
}

#endif
