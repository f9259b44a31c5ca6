/* Functions and variables of a loaded library, by the name of the library and of the symbol. */
#include "agent/lookup.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/stacks/libraries.h"
#include "agent/stacks/symbols.h"

struct wanted {
	const char *library, *symbol;
	void *found;
};

static const char *file_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
	struct wanted *wanted = context;
	struct gm_loaded_symbols table;
	if (strncmp(file_name(info->dlpi_name), wanted->library, strlen(wanted->library)) != 0 ||
	        !gm_loaded_symbols_read(info, &table))
		return 0;
	const ElfW(Sym) *symbol =
	        gm_loaded_symbol(&table, wanted->symbol, gm_symbol_hash(wanted->symbol));
	if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return 0;
	wanted->found = (void *)(table.base + symbol->st_value);
	return 1;
}

void *gm_agent_lookup(const char *library, const char *symbol)
{
	struct wanted wanted = {.library = library, .symbol = symbol};
	gm_libraries_each(visit, &wanted);
	return wanted.found;
}

void *gm_agent_go_on(void *_Atomic *before, const char *library, const char *symbol)
{
	void *function = atomic_load_explicit(before, memory_order_relaxed);
	if (__builtin_expect(!function, 0)) {
		function = gm_agent_lookup(library, symbol);
		atomic_store_explicit(before, function, memory_order_relaxed);
	}
	return function;
}
