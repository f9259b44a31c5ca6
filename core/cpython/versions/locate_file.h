/* What locating the interpreter reads from files. */
#ifndef GM_CPYTHON_LOCATE_FILE_H
#define GM_CPYTHON_LOCATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

/* The address in the file of a section; false: no such file or section. */
bool gm_python_find_section(
        const struct gm_image *image, const char *path, const char *section, uint64_t *ret_address);

/* The version string in a file's .rodata, as PY_VERSION_HEX without the release level; `minor_hex`
 * (0x030a, or 0 for any) is the version that the file's name told. 0: none found. */
unsigned long gm_python_version_in_file(
        const struct gm_image *image, const char *path, unsigned long minor_hex);

/* The same in bytes already at hand. */
unsigned long gm_python_version_in_bytes(const char *bytes, size_t size, unsigned long minor_hex);

#endif
