/*
 * A copy of a program's writable memory, made while the program is stopped: then the program
 * continues, and the question reads the copy. It includes threads, registers and the list of
 * mappings. Read-only memory (code, constants) is still read from the process.
 *
 * The copy takes as much memory as the program has touched. If that is more than half of the memory
 * available on the machine, or in gpumem's control group, no copy is made.
 */
#ifndef GM_IMAGE_CAPTURE_H
#define GM_IMAGE_CAPTURE_H

#include "image/image.h"

struct gm_capture_buffer;

/*
 * Call it of a process that is stopped, in the thread that traces it. True: from now on, until
 * gm_image_capture_end(), everything about the image is of this moment. False: nothing has changed;
 * there is no memory for it, or it is no process. `buffer` (capture_buffer.h) may be NULL;
 * what the copy needs of it is taken out of it.
 */
bool gm_image_capture(
        struct gm_image *image, struct gm_capture_buffer *buffer, uint64_t *ret_bytes);
/* Was something asked for that was not copied, and has changed since? Then what was read is to be
 * read again, all of it copied. */
bool gm_image_capture_lost(const struct gm_image *image);
/* `image` may be NULL. Does nothing where nothing is captured. Read the mappings again, and forget
 * cached pages, before the next read. */
void gm_image_capture_end(struct gm_image *image);

#endif
