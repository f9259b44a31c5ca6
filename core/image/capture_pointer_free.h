/*
 * Pointer-free memory (pointer_free.h) is read while the process is stopped, as all memory is, but
 * it is not copied: most of a program's memory may be tensors' numbers. Each 64 KiB gets a mark. A
 * reader who wants some of it later (the length of a string that is a page long) gets it from the
 * process. If its mark has changed by then, the bytes are lost, and the copy says so. Inside of the
 * image room.
 */
#ifndef GM_IMAGE_CAPTURE_POINTER_FREE_H
#define GM_IMAGE_CAPTURE_POINTER_FREE_H

#include <stdatomic.h>

#include "image/capture_area.h"
#include "image/internal.h"
#include "image/pointer_free.h"

enum { GM_COPY_UNIT = 64 << 10 /* at a multiple of it in the process */ };

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

/* Units for an area, if it is worth it; all are GM_UNIT_COPIED. */
void gm_copy_units_init(struct gm_copy_area *area);
void gm_copy_units_deinit(struct gm_copy_area *area);

/* An address above which a word may be one, in this process. */
uint64_t gm_lowest_address(const struct gm_image *image);

/* While the process runs: some pages of the piece are looked at. If all are pointer-free, its units
 * are likely to be. */
bool gm_copy_is_likely_pointer_free(
        struct gm_image *image, struct gm_copy_area *area, struct gm_range piece, uint64_t lowest);
/* Reads a piece from `under`, and copies what is not pointer-free to its place. False: some of it
 * could not be read. */
bool gm_copy_piece(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, struct gm_range piece, uint64_t lowest,
        uint64_t *ret_pointer_free);

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

/* A pointer-free unit is put in its place, if it is still what it was; one thread at a time.
 * Returns its state. */
enum gm_unit_state gm_copy_fetch(struct gm_image *image, const struct gm_image_kind *under,
        struct gm_copy_area *area, uint64_t address, uint64_t lowest);

#endif
