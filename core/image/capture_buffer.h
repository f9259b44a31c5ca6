/* What capture.c and capture_buffer.c share. */
#ifndef GM_IMAGE_CAPTURE_BUFFER_H
#define GM_IMAGE_CAPTURE_BUFFER_H

#include "image/capture.h"
#include "image/capture_area.h"
#include "image/internal.h"

/* Without memory behind it; false: there is no memory. */
bool gm_copy_area_init(struct gm_copy_area *area, const struct gm_mapping *mapping);
/* Of one that was taken out of a buffer (all zero but the bounds) too. */
void gm_copy_area_deinit(struct gm_copy_area *area);

/* Whole pages of the target, so many as one thread gets or copies in one go. False: no memory. */
typedef bool (*gm_copy_visit)(void *context, struct gm_range piece);
/*
 * Shows the touched pages of the area's mapping, ascending, and adds their bytes to *bytes. False:
 * no memory, the visitor said so, or there are more than `most` bytes.
 */
bool gm_copy_area_each_piece(struct gm_image *image, const struct gm_copy_area *area,
        uint64_t *bytes, uint64_t most, gm_copy_visit visit, void *context);

/* The area that was made for this mapping, if there is one; `buffer` may be NULL. */
bool gm_capture_buffer_take(struct gm_capture_buffer *buffer, const struct gm_mapping *mapping,
        struct gm_copy_area *ret_area);
/* Can it be copied at all? */
bool gm_capture_is_possible(const struct gm_image *image);
/* Bytes that a copy may take: now, or when the buffer was made, as most of them are in use since.
 */
uint64_t gm_capture_most(const struct gm_capture_buffer *buffer);

#endif
