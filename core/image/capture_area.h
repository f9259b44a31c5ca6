/*
 * Where a copy of one mapping lies, which of its pages are touched, and which of its units of
 * 64 KiB are not copied (capture_pointer_free.h). Inside of the image room.
 */
#ifndef GM_IMAGE_CAPTURE_AREA_H
#define GM_IMAGE_CAPTURE_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "image/mapping.h"
#include "image/pointer_free.h"

struct gm_image;

enum {
	GM_COPY_UNIT = 64 << 10,  /* at a multiple of it in the process */
	GM_COPY_UNITS_LEAST = 16, /* of a mapping that has units */
};

enum gm_unit_state {
	GM_UNIT_COPIED,
	GM_UNIT_LIKELY_POINTER_FREE, /* until it is copied; afterwards: never touched */
	GM_UNIT_POINTER_FREE,
	GM_UNIT_FETCHED, /* pointer-free, copied since, unchanged */
	GM_UNIT_LOST,    /* pointer-free, changed since */
};

struct gm_copy_unit {
	struct gm_pointer_free_mark mark;
	atomic_uchar state;
};

enum { GM_COPY_PAGES_PER_WORD = 64 };

/* Our own address space for one mapping. */
struct gm_copy_area {
	uint64_t start, end; /* the mapping's */
	uint8_t *bytes;
	uint64_t *touched;          /* a bit for each page, all zero at first */
	struct gm_copy_unit *units; /* NULL: all is copied */
};

/* Without memory after it; false: there is no memory. */
bool gm_copy_area_init(struct gm_copy_area *area, const struct gm_mapping *mapping);
/* Of one that was taken out of a buffer (all zero but the bounds) too. */
void gm_copy_area_deinit(struct gm_copy_area *area);

/* Units for an area, if it is worth it; all are GM_UNIT_COPIED. */
void gm_copy_units_init(struct gm_copy_area *area);

/* Whole pages of the target, so many as one thread gets or copies in one go. False: no memory. */
typedef bool (*gm_copy_visit)(void *context, struct gm_range slice);
/*
 * Shows the touched pages of the area's mapping, ascending, and adds their bytes to *bytes. False:
 * no memory, the visitor said so, or there are more than `most` bytes.
 */
bool gm_copy_area_each_slice(struct gm_image *image, const struct gm_copy_area *area,
        uint64_t *bytes, uint64_t most, gm_copy_visit visit, void *context);

/* The unit of an address; NULL: its area has none. */
static inline struct gm_copy_unit *gm_copy_unit_at(
        const struct gm_copy_area *area, uint64_t address)
{
	return area->units ? &area->units[address / GM_COPY_UNIT - area->start / GM_COPY_UNIT]
	                   : NULL;
}

static inline enum gm_unit_state gm_copy_unit_state(
        const struct gm_copy_area *area, uint64_t address)
{
	struct gm_copy_unit *unit = gm_copy_unit_at(area, address);
	return unit ? (enum gm_unit_state)atomic_load_explicit(&unit->state, memory_order_acquire)
	            : GM_UNIT_COPIED;
}

/* Was it pointer-free when all was copied? No search finds anything there. */
static inline bool gm_copy_is_pointer_free(const struct gm_copy_area *area, uint64_t address)
{
	return gm_copy_unit_state(area, address) >= GM_UNIT_POINTER_FREE;
}

#endif
