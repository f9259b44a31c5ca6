/*
 * Symbols of libraries that are loaded into this process, by name. dlsym() would do, but it takes
 * the dynamic linker's big lock, which a thread may hold that waits for the very allocator whose
 * report is in progress here.
 */
#ifndef GM_AGENT_STACKS_SYMBOLS_H
#define GM_AGENT_STACKS_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct gm_loaded_symbols {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hashed; /* DT_GNU_HASH */
	ElfW(Addr) base;        /* what is added to a symbol's value */
};

/* From within a callback of dl_iterate_phdr(). False: the library has no hash table of that kind;
 * the other fields are set where it has them. */
bool gm_loaded_symbols_read(const struct dl_phdr_info *info, struct gm_loaded_symbols *ret);
uint32_t gm_symbol_hash(const char *name);
/* The entry that the library defines, NULL: it defines none of that name. `hash`:
 * gm_symbol_hash(name). */
const ElfW(Sym) *
        gm_loaded_symbol(const struct gm_loaded_symbols *table, const char *name, uint32_t hash);

#endif
