/*
 * The log's bytes: file header, chunk headers, varints and the coding of events, shared by writer
 * and reader. docs/log-format.md is the specification; numbers here never change meaning within a
 * major version.
 */
#ifndef GM_LOG_FORMAT_H
#define GM_LOG_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "log/log.h"

enum {
	GM_LOG_MAJOR =
	        3, /* a reader refuses a greater one; 2 is the same without tensors, 1 without packed chunks too */
	GM_LOG_MINOR = 0, /* a greater one may add chunk types, which are skipped */
	GM_LOG_HEADER_SIZE = 64,
	GM_CHUNK_HEADER_SIZE = 24,
	GM_CHUNK_MAX = 1 << 24,        /* bytes of one chunk's payload */
	GM_CHUNK_EVENTS_MAX = 1 << 12, /* events of one chunk */
	GM_LOG_STRING_MAX = 1 << 16,   /* bytes of one string; longer ones are cut by the writer */
	GM_LOG_STACK_MAX = 1 << 12,    /* frames of one stack; outer ones are cut by the writer */
	GM_LOG_LOOPS_MAX = 1 << 10,
	GM_LOG_EVENT_BYTES_MAX = 128, /* no event takes more */
};

#define GM_LOG_MAGIC "\x89GPUMEM\n"
#define GM_CHUNK_MAGIC UINT32_C(0x4b434d47) /* "GMCK" */

enum gm_chunk_type {
	GM_CHUNK_META = 1,
	GM_CHUNK_STRINGS,
	GM_CHUNK_CODES,
	GM_CHUNK_FRAMES,
	GM_CHUNK_PYTHON_STACKS,
	GM_CHUNK_MODULES,
	GM_CHUNK_NATIVE_STACKS,
	GM_CHUNK_EVIDENCE,
	GM_CHUNK_SYMBOLS,
	GM_CHUNK_GAPS,
	GM_CHUNK_COUNTERS,
	GM_CHUNK_EVENTS,
	GM_CHUNK_END,
	GM_CHUNK_PASSES,  /* since 1.1 */
	GM_CHUNK_MARKS,   /* since 1.2 */
	GM_CHUNK_TENSORS, /* since 3.0 */
	GM_CHUNK_TYPE_COUNT,
};

struct gm_log_header {
	uint16_t major, minor;
	uint64_t id; /* of this recording: a file that was written anew has another */
	uint64_t pid;
	uint64_t start_ns; /* since the Unix epoch */
};

enum gm_chunk_flag {
	GM_CHUNK_PACKED = 1, /* since 2.0: the payload, events, is a zstd frame */
};

struct gm_chunk_header {
	uint16_t type, flags;
	uint32_t length; /* bytes of the payload behind the header */
	uint32_t count;  /* records in it */
	uint32_t crc;    /* CRC-32 of the payload */
};

void gm_log_header_encode(const struct gm_log_header *header, uint8_t *ret_bytes);
/* bytes: GM_LOG_HEADER_SIZE of them. NULL, or why not (a static string); "newer" for a newer major
 * version, with ret_header's version filled in. */
const char *gm_log_header_decode(const uint8_t *bytes, struct gm_log_header *ret_header);
void gm_chunk_header_encode(const struct gm_chunk_header *header, uint8_t *ret_bytes);
const char *gm_chunk_header_decode(const uint8_t *bytes, struct gm_chunk_header *ret_header);
const char *gm_chunk_type_name(unsigned type);
uint32_t gm_log_crc(const void *bytes, size_t size);

/* ---- varints: LEB128, at most ten bytes
 * ---------------------------------------------------------- */

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

uint64_t gm_get_varint_slow(struct gm_cursor *cursor);

/* Up to eight bytes at once: the seven bits of each are moved together in three steps. A varint that is longer, or ends
 * within the last bytes of a payload, is read byte by byte. */
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
			word &= (last - 1) & UINT64_C(0x7f7f7f7f7f7f7f7f);
			word = (word & UINT64_C(0x007f007f007f007f)) |
			       (word & UINT64_C(0x7f007f007f007f00)) >> 1;
			word = (word & UINT64_C(0x00003fff00003fff)) |
			       (word & UINT64_C(0x3fff00003fff0000)) >> 2;
			return (word & UINT64_C(0x000000000fffffff)) |
			       (word & UINT64_C(0x0fffffff00000000)) >> 4;
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

/* ---- events
 * --------------------------------------------------------------------------------------- */

/* What the next event is coded against; reset at the start of each chunk, so chunks decode alone.
 */
void gm_event_state_reset(struct gm_event *state);
/* Appends an event's bytes (at most GM_LOG_EVENT_BYTES_MAX); returns the end. */
uint8_t *gm_event_encode(struct gm_event *state, const struct gm_event *event, uint8_t *at);
/* All events of a chunk into `ret_events` (NULL: they are only looked at). `most` has the greatest ids that they may refer
 * to. What is wrong with them (a static string), or NULL. */
const char *gm_events_decode(struct gm_cursor *cursor, uint32_t count, const struct gm_event *most,
        struct gm_event *ret_events);

#endif
