/*
 * Source lines of a module's addresses. Only modules that carry DWARF, in their file or in a
 * separate debug file (the user's own extensions, as a rule), cost anything.
 */
#ifndef GM_SYMBOLS_LINES_H
#define GM_SYMBOLS_LINES_H

#include "symbols/dwarf_lines.h"
#include "symbols/internal.h"

/* One address to be named, and the best symbol seen for it. */
struct gm_naming {
	uint64_t address; /* in the file */
	size_t index;     /* the asker's own */
	bool found;
	Elf64_Sym symbol;
	const char *name; /* linkage name, in the file's table */
};

/* Sets file and line of symbols[request.index] for each request, sorted by address, that DWARF
 * covers. */
struct gm_error *gm_lines_name(struct gm_symbols *symbols, const struct gm_module *module,
        const struct gm_naming *requests, size_t count, struct gm_symbol *ret_symbols);

#endif
