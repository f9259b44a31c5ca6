/*
 * The file that a core is written to: front to back, long runs of zeros as holes, or compressed
 * (.zst). It comes into being under its name only when all of it is there (base/whole_file.h).
 * Inside of the image room.
 */
#ifndef GM_IMAGE_CORE_OUT_H
#define GM_IMAGE_CORE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/whole_file.h"

struct gm_core_out {
	const char *path; /* the caller's, as long as it is open */
	struct gm_whole_file file;
	uint64_t length;  /* of the core so far, uncompressed */
	void *compressor; /* ZSTD_CCtx, NULL: as it is */
	uint8_t *buffer;  /* compressed bytes before they are written */
	size_t buffer_size;
};

/* `bytes` is what it may need at most: GM_TARGET where the disk has not got it, or it cannot be
 * written. */
struct gm_error *gm_core_out_open(
        const char *path, bool compress, uint64_t bytes, struct gm_core_out *ret_out);
struct gm_error *gm_core_out_write(struct gm_core_out *out, const void *bytes, size_t size);
struct gm_error *gm_core_out_zeros(struct gm_core_out *out, uint64_t size);
/* Gives it its name. Closes it in any case; *ret_disk is what it takes on the disk. */
struct gm_error *gm_core_out_finish(struct gm_core_out *out, uint64_t *ret_disk);
/* Drops it, unless it was finished. */
void gm_core_out_close(struct gm_core_out *out);

#endif
