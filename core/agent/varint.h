/* Varints, as core/log writes them. */
#ifndef GM_AGENT_VARINT_H
#define GM_AGENT_VARINT_H

#include <stdint.h>

static inline uint8_t *gm_agent_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static inline uint64_t gm_agent_zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

#endif
