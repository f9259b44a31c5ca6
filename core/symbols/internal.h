/*
 * Inside of the symbols room: a loaded module, its opened file, the tables read from it. Nothing
 * outside core/symbols includes this.
 */
#ifndef GM_SYMBOLS_INTERNAL_H
#define GM_SYMBOLS_INTERNAL_H

#include "symbols/elf_file.h"
#include "symbols/names.h"
#include "symbols/rows.h"
#include "symbols/symbols.h"

enum {
	GM_MODULES_MAX = 8192, /* a process with more is not served beyond them */
};

/* What belongs to a struct gm_module but is our own business; same index. */
struct gm_module_state {
	bool loaded; /* false once its mappings are gone */
	uint64_t inode;
	bool opened;         /* an attempt was made; `file` may still be NULL */
	struct gm_elf *file; /* the file that is mapped (or the vdso's memory) */
	bool debug_opened;
	struct gm_elf *debug; /* its separate debug file, if there is one */
};

/*
 * Modules are never moved (their addresses are handed out), so the array has its full size from the
 * start; untouched, it costs no memory. `by_address` lists the loaded ones, sorted by start.
 */
struct gm_symbols {
	struct gm_image *image;
	struct gm_module *modules;
	struct gm_module_state *states;
	size_t count;
	uint32_t *by_address;
	size_t loaded_count;
	struct gm_names names;
	struct gm_rows rows;
};

/* The module's file, opened when first asked for; NULL where it cannot be had or is another file by
 * now. */
struct gm_elf *gm_symbols_file(struct gm_symbols *symbols, const struct gm_module *module);
/* Its separate debug file; NULL: none. */
struct gm_elf *gm_symbols_debug_file(struct gm_symbols *symbols, const struct gm_module *module);

#endif
