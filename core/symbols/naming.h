/* Inside of the symbols room: naming addresses of one file. */
#ifndef GM_SYMBOLS_NAMING_H
#define GM_SYMBOLS_NAMING_H

#include "symbols/elf_file.h"
#include "symbols/lines.h"

/* Sorts the requests by address and fills in what covers each; either file may be NULL. */
void gm_naming_in_file(const struct gm_elf *file, const struct gm_elf *debug,
        struct gm_naming *requests, size_t count);

#endif
