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

#include "base/varint.h"
#include "log/log.h"

enum {
	GM_LOG_MAJOR = 3, /* a reader refuses a greater one; 2 is the same without tensors, 1
	                     without packed chunks too */
	GM_LOG_MINOR = 6, /* a greater one may add chunk types, which are skipped */
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
	GM_CHUNK_ITERATIONS,  /* since 1.1 */
	GM_CHUNK_MARKS,       /* since 1.2 */
	GM_CHUNK_TENSORS,     /* since 3.0 */
	GM_CHUNK_AMP,         /* since 3.1 */
	GM_CHUNK_NAMES,       /* since 3.2 */
	GM_CHUNK_COLLECTIVES, /* since 3.3 */
	GM_CHUNK_SETTINGS,    /* since 3.4 */
	GM_CHUNK_TYPE_COUNT,
};

struct gm_log_header {
	uint16_t major, minor;
	uint64_t id; /* of this recording: a file that was written again has another */
	uint64_t pid;
	uint64_t start_ns; /* since the Unix epoch */
};

enum gm_chunk_flag {
	GM_CHUNK_PACKED = 1, /* since 2.0: the payload, events, is a zstd frame */
};

struct gm_chunk_header {
	uint16_t type, flags;
	uint32_t length; /* bytes of the payload after the header */
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

/* ---- events ---------------------------------------------------------------------------------- */

/* What the next event is coded against; reset at the start of each chunk, so chunks decode
 * alone. */
void gm_event_state_reset(struct gm_event *state);
/* Appends an event's bytes (at most GM_LOG_EVENT_BYTES_MAX); returns the end. */
uint8_t *gm_event_encode(struct gm_event *state, const struct gm_event *event, uint8_t *at);
/* All events of a chunk into `ret_events` (NULL: they are only looked at). `most` has the greatest
 * ids that they may refer to. What is wrong with them (a static string), or NULL. */
const char *gm_events_decode(struct gm_cursor *cursor, uint32_t count, const struct gm_event *most,
        struct gm_event *ret_events);

#endif
