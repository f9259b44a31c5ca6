/*
 * Source lines of a module's addresses. Only modules with DWARF, in their file or in a separate
 * debug file, cost anything; usually these are the user's own extensions.
 */
#ifndef GM_SYMBOLS_LINES_H
#define GM_SYMBOLS_LINES_H

#include "symbols/internal.h"

/* An address in a file, and its source line. */
struct gm_line_request {
	uint64_t address;
	const char *file; /* in the gm_names; NULL: unknown */
	uint32_t line;
};

/* Fills in the requests that the line tables of `file` cover. `requests` are sorted by address. */
void gm_lines_find(struct gm_elf *file, struct gm_line_request *requests, size_t count,
        struct gm_names *names);

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
