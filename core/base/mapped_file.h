/*
 * A file's bytes as memory. Without this, a file that becomes shorter while it is mapped would end
 * the whole process (SIGBUS), and gdb with it. While a file is mapped here, the missing part reads
 * as zero instead; the caller compares the file's size afterwards if that matters. A SIGBUS with
 * another cause goes to the previous handler.
 *
 * The owner of the file may also change it in place, and so remove the NUL that a string was
 * checked for. Zeros follow the last byte of the file, so that a string ends there at the latest.
 */
#ifndef GM_BASE_MAPPED_FILE_H
#define GM_BASE_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* NULL: it cannot be mapped, or too many are. */
const uint8_t *gm_mapped_file_open(int fd, size_t size);
/* The same of [offset, offset + size) of the file, writable: it is shared with whoever else maps
 * the file. What is written where the file has become shorter is lost. `offset` is that of a page.
 */
uint8_t *gm_mapped_file_open_shared(int fd, off_t offset, size_t size);
/* Makes [offset, offset + size) writable: its pages become a copy, and the file does not change.
 * False: no memory, or beyond the end of the mapping. */
bool gm_mapped_file_make_writable(
        const uint8_t *bytes, size_t mapped_size, size_t offset, size_t size);
void gm_mapped_file_close(const uint8_t *bytes, size_t size);

#endif
