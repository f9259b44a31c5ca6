/*
 * Reading many small things in the order of their addresses: memory comes in pieces of up to 256 KiB, as far as
 * the next addresses are near. A million reads of an object each cost what reading its heap once costs.
 */
#ifndef GM_CPYTHON_WINDOW_H
#define GM_CPYTHON_WINDOW_H

#include "image/image.h"

enum {
	GM_WINDOW_SIZE = 256 << 10,
	GM_WINDOW_SCRATCH = 4096, /* the largest `size` of gm_window_get() */
	GM_WINDOW_AHEAD = 64,     /* records looked at for what to read */
};

struct gm_window {
	struct gm_image *image;
	uint8_t *bytes;
	uint64_t start;
	size_t size;
	uint8_t scratch[GM_WINDOW_SCRATCH];
};

bool gm_window_init(struct gm_window *window, struct gm_image *image); /* false: no memory */
void gm_window_deinit(struct gm_window *window);

/* What was read of [address, address + size), without reading; NULL: not there. */
static inline const uint8_t *gm_window_peek(
        const struct gm_window *window, uint64_t address, size_t size)
{
	uint64_t skip = address - window->start;
	return skip < window->size && size <= window->size - skip ? window->bytes + skip : NULL;
}

/*
 * [address, address + size) of the address that records[at] begins with, moved back by `before`; the records
 * that follow it, `count` in all, of `stride` bytes each, tell what else to read. NULL: it cannot be read. Valid until
 * the next call.
 */
const uint8_t *gm_window_get(struct gm_window *window, const void *records, size_t stride,
        size_t count, size_t at, size_t before, size_t size);
/* The same of one address, at most GM_WINDOW_SCRATCH bytes, with no look ahead. */
const uint8_t *gm_window_read(struct gm_window *window, uint64_t address, size_t size);

#endif
