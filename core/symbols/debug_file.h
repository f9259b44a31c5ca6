/* Inside of the symbols room: where a stripped file's symbols and DWARF went. */
#ifndef GM_SYMBOLS_DEBUG_FILE_H
#define GM_SYMBOLS_DEBUG_FILE_H

#include "symbols/elf_file.h"

/*
 * The separate debug file of `file` that belongs to it: by build-id under
 * `root`/usr/lib/debug/.build-id, else the one that .gnu_debuglink names, next to it or under
 * `root`/usr/lib/debug, if its build-id or checksum fits. NULL: none.
 */
struct gm_elf *gm_debug_file_open(struct gm_elf *file, const char *path, const char *root);

#endif
