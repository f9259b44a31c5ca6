/*
 * Payloads of chunks packed by zstd, one frame each. A log that was written to its end is packed;
 * one that is being recorded is not: chunks are small then, and the program waits. So that a small
 * file cannot make a reader take much memory, only events are packed, which stay in the file, and
 * no more than GM_PACK_MOST to one.
 */
#ifndef GM_LOG_PACK_H
#define GM_LOG_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

enum { GM_PACK_MOST = 32 };

struct gm_packer;
struct gm_packer *gm_packer_create(void); /* NULL: no memory */
void gm_packer_destroy(struct gm_packer *packer);
/* The packed payload, the packer's until the next call; NULL: it would not be
 * shorter, or too much so. */
const uint8_t *gm_packer_pack(
        struct gm_packer *packer, const uint8_t *bytes, size_t size, size_t *ret_size);

/* What was unpacked last, in a buffer that grows to what is needed, at most GM_CHUNK_MAX; and
 * zstd's tables, which are kept: to make them takes as long as to unpack some kilobytes. All zero
 * at first. */
struct gm_unpacked {
	uint8_t *bytes;
	size_t size, capacity;
	struct ZSTD_DCtx_s *context;
};
/* NULL, or why not (a static string). */
const char *gm_unpack(
        const uint8_t *bytes, size_t size, struct gm_unpacked *unpacked, bool *ret_no_memory);
void gm_unpacked_deinit(struct gm_unpacked *unpacked);

#endif
