/* Where a copy of one mapping lies. Inside of the image room. */
#ifndef GM_IMAGE_CAPTURE_AREA_H
#define GM_IMAGE_CAPTURE_AREA_H

#include <stdint.h>

struct gm_copy_unit; /* capture_pointer_free.h */

enum { GM_COPY_PAGES_PER_WORD = 64 };

/* Our own address space for one mapping. */
struct gm_copy_area {
	uint64_t start, end; /* the mapping's */
	uint8_t *bytes;
	uint64_t *touched;          /* a bit for each page, all zero at first */
	struct gm_copy_unit *units; /* NULL: all is copied */
};

#endif
