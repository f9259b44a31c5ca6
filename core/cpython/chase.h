/*
 * Following pointers through a large heap: a cache of much memory without locks, for one thread and one question.
 *
 * Lists of the garbage collector go through the heap mostly in the order in which things were made, but not
 * strictly: what is read once is kept, up to a bound, and how much is read at a time follows how well it was used.
 */
#ifndef GM_CPYTHON_CHASE_H
#define GM_CPYTHON_CHASE_H

#include "image/image.h"

struct gm_chase_frame {
	uint64_t key;   /* address / frame size, plus 1; 0: empty */
	uint32_t there; /* a bit for each of its pages */
};

struct gm_chase {
	struct gm_image *image;
	uint8_t *bytes; /* all frames'; touched as they are used */
	struct gm_chase_frame *frames;
	size_t count; /* a power of two */
};

bool gm_chase_init(struct gm_chase *chase, struct gm_image *image); /* false: no memory */
void gm_chase_deinit(struct gm_chase *chase);
/* The word at an address that is a multiple of 8; false: it cannot be read. */
bool gm_chase_word(struct gm_chase *chase, uint64_t address, uint64_t *ret_word);

#endif
