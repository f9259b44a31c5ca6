/*
 * Pointer-free memory (Boehm GC's term): none of its words is an address. Examples are a tensor's
 * numbers, a buffer of a file, zeros. No reference begins there, and a search for an address finds
 * nothing in it. Inside of the image room.
 */
#ifndef GM_IMAGE_POINTER_FREE_H
#define GM_IMAGE_POINTER_FREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tells later whether the same bytes are there. */
struct gm_pointer_free_mark {
	uint64_t words[2];
};

/* Whether this processor can look fast enough (AVX2, AES). */
bool gm_pointer_free_is_possible(void);
/*
 * Is no word of these bytes, aligned to 64, `size` a multiple of 64, in [low, 2^47)? If so,
 * *ret_mark is made of them. Only where gm_pointer_free_is_possible().
 */
bool gm_pointer_free_look(
        const void *bytes, size_t size, uint64_t low, struct gm_pointer_free_mark *ret_mark);

#endif
