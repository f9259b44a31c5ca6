/*
 * Source lines of a module's addresses. Only modules that carry DWARF, in their file or in a
 * separate debug file (the user's own extensions, as a rule), cost anything.
 */
#ifndef GM_SYMBOLS_LINES_H
#define GM_SYMBOLS_LINES_H

#include "symbols/dwarf_lines.h"
#include "symbols/internal.h"
#include "symbols/naming.h"

/* Sets file and line of symbols[request.index] for each request, sorted by address, that DWARF
 * covers. */
struct gm_error *gm_lines_name(struct gm_symbols *symbols, const struct gm_module *module,
        const struct gm_naming *requests, size_t count, struct gm_symbol *ret_symbols);

#endif
