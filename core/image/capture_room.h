/* What capture.c and capture_room.c share. */
#ifndef GM_IMAGE_CAPTURE_ROOM_H
#define GM_IMAGE_CAPTURE_ROOM_H

#include "image/capture.h"
#include "image/internal.h"

enum {
	GM_STRETCH_PAGES_PER_WORD = 64,
	GM_STRETCH_STEP =
	        4096 *
	        GM_PAGE_SIZE, /* of address space, looked through for touched pages at a time */
	GM_STRETCH_PIECE = 4 << 20, /* got or copied by one thread in one go */
};

/* Our own address space for one mapping. */
struct gm_stretch {
	uint64_t start, end; /* the mapping's */
	uint8_t *bytes;
	uint64_t *touched; /* a bit for each page, all zero at first */
};

/* Without memory behind it; false: there is no room. The caller unmaps `bytes` and frees `touched`. */
bool gm_stretch_init(struct gm_stretch *stretch, const struct gm_mapping *mapping);
/* The stretch that was made for this mapping, if there is one; `room` may be NULL. */
bool gm_capture_room_take(struct gm_capture_room *room, const struct gm_mapping *mapping,
        struct gm_stretch *ret_stretch);
/* Can it be copied at all? */
bool gm_capture_is_possible(const struct gm_image *image);
/* Bytes that a copy may take: now, or when the room was made, as most of them are in use since. */
uint64_t gm_capture_most(const struct gm_capture_room *room);

#endif
