/*
 * Memory for a copy of what a program can write to (capture.h), got from the kernel before the
 * process is stopped: the kernel zeroes each page that it gives, which takes longer than to copy
 * something there. A hint only: the process runs on, and what it maps or touches in the meantime
 * gets its memory when it is copied.
 */
#ifndef GM_IMAGE_CAPTURE_BUFFER_H
#define GM_IMAGE_CAPTURE_BUFFER_H

#include "image/capture_area.h"

struct gm_capture_buffer;
struct gm_image;

/*
 * NULL: there is no memory for a copy, or this is not a process that can be copied. `all`: every
 * page will be copied. Otherwise large stretches without an address in them (a tensor's numbers)
 * are left out. A read of such memory gets it from the process, if it has not changed since.
 */
struct gm_capture_buffer *gm_capture_buffer_create(struct gm_image *image, bool all);
void gm_capture_buffer_destroy(struct gm_capture_buffer *buffer);

/* --- inside of the image room ----------------------------------------------------------------- */

/* The area that was made for this mapping, if there is one; `buffer` may be NULL. */
bool gm_capture_buffer_take(struct gm_capture_buffer *buffer, const struct gm_mapping *mapping,
        struct gm_copy_area *ret_area);
/* Can it be copied at all? */
bool gm_capture_is_possible(const struct gm_image *image);
/* Bytes that a copy may take: now, or when the buffer was made, as most of them are in use since.
 */
uint64_t gm_capture_most(const struct gm_capture_buffer *buffer);

#endif
