/*
 * Inside of the image room: a file's bytes as memory. A file that becomes shorter while it is mapped would end the
 * whole process (SIGBUS), gdb with it; while one is mapped here, what is gone of it reads as zero instead, and whoever
 * mapped it looks at the file's size afterwards. A SIGBUS that is not ours goes where it went before.
 */
#ifndef GM_IMAGE_MAPPED_FILE_H
#define GM_IMAGE_MAPPED_FILE_H

#include <stddef.h>
#include <stdint.h>

/* NULL: it cannot be mapped, or too many are. */
const uint8_t *gm_mapped_file_open(int fd, size_t size);
void gm_mapped_file_close(const uint8_t *bytes, size_t size);

#endif
