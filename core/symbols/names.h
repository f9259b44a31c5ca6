/*
 * Strings of the symbols room: each kept once and until the end, so that what is handed out stays
 * valid; and each linkage name with its demangled form, made when first asked for.
 */
#ifndef GM_SYMBOLS_NAMES_H
#define GM_SYMBOLS_NAMES_H

#include <stdbool.h>

#include "base/strings.h"

struct gm_names {
	struct gm_strings strings;
	GM_ARRAY(char *) demangled; /* by number of the string; NULL: not asked for yet */
};

void gm_names_deinit(struct gm_names *names);
/* The kept copy of a string; NULL: no memory. */
const char *gm_names_string(struct gm_names *names, const char *text);
/* The kept copy of a linkage name and its demangled form; false: no memory. */
bool gm_names_symbol(struct gm_names *names, const char *linkage_name,
        const char **ret_linkage_name, const char **ret_function);

/* The demangled form of a C++ name, else a copy of it; caller frees; NULL: no memory. */
char *gm_demangle(const char *linkage_name);

#endif
