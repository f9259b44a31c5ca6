/*
 * Interning byte strings: the same bytes get the same number, from 1. All bytes lie one after
 * another in one growing buffer in the order of their numbers, which is the order in which they are
 * written to the log, so the buffer's tail is the next chunk's payload. Look-up is an
 * open-addressed table of numbers beside their hashes, so that growing it touches no bytes.
 */
#ifndef GM_LOG_INTERN_H
#define GM_LOG_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_intern_slot {
	uint32_t id; /* 0: free */
	uint32_t hash;
};

struct gm_intern {
	uint8_t *bytes;
	size_t size, capacity;
	size_t *ends; /* ends[id - 1]: one past the last byte of it */
	size_t count, ends_capacity;
	struct gm_intern_slot *slots;
	size_t slot_count;                  /* a power of two, or 0 */
	size_t flushed_size, flushed_count; /* what the log has already */
};

void gm_intern_deinit(struct gm_intern *intern);
/* 0: no memory, or 2^32 strings. */
uint32_t gm_intern_add(struct gm_intern *intern, const void *bytes, size_t size);

#endif
