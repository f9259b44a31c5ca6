/* Inside of the symbols room: naming addresses of one file. */
#ifndef GM_SYMBOLS_NAMING_H
#define GM_SYMBOLS_NAMING_H

#include "symbols/elf_file.h"

/* One address to be named, and the best symbol seen for it. */
struct gm_naming {
	uint64_t address; /* in the file */
	size_t index;     /* the asker's own */
	bool found;
	Elf64_Sym symbol;
	const char *name; /* linkage name, in the file's table */
};

/* Sorts the requests by address and fills in what covers each; either file may be NULL. */
void gm_naming_in_file(const struct gm_elf *file, const struct gm_elf *debug,
        struct gm_naming *requests, size_t count);

#endif
