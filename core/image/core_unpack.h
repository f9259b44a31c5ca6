/*
 * A compressed core (.zst, as systemd-coredump and our own writer make them; .xz; .gz) made
 * readable: decompressed into a file without a name, in which zeros take no room on the disk. It
 * does not read .lz4 and .bz2: those are refused with the command that decompresses them. Inside of
 * the image room.
 */
#ifndef GM_IMAGE_CORE_UNPACK_H
#define GM_IMAGE_CORE_UNPACK_H

#include "image/image.h"

/*
 * Replaces *fd, if it is a compressed file, by its decompressed content. GM_CORRUPT: it cannot be
 * decompressed, or ends too early (file, offset, reason); GM_TARGET: the disk has no room for it
 * (TMPDIR, /var/tmp and the core's own folder are tried).
 */
struct gm_error *gm_core_unpack(int *fd, const char *path, const struct gm_progress *progress);

#endif
