/*
 * Functions of loaded libraries, by name. dlsym() would do, but takes the loader's big lock, which a thread may
 * hold that waits for the very allocator whose report is under way here.
 */

#include "agent/lookup.h"

#include <elf.h>
#include <link.h>
#include <string.h>

struct wanted {
	const char *library, *symbol;
	void *found;
};

/* System V ABI, chapter 5; the GNU table: bloom words, buckets, chains (glibc elf/dl-lookup.c, do_lookup_x) */
static const ElfW(Sym) * find_gnu(const uint32_t *table, const ElfW(Sym) * symbols,
                                 const char *strings, const char *name)
{
	uint32_t hash = 5381;
	for (const char *at = name; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2];
	const uint32_t *buckets = table + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chains = buckets + bucket_count;
	uint32_t index = bucket_count ? buckets[hash % bucket_count] : 0;
	if (index < first)
		return NULL;
	for (;; index++) {
		uint32_t chained = chains[index - first];
		if ((chained | 1) == (hash | 1) &&
		        strcmp(strings + symbols[index].st_name, name) == 0 &&
		        symbols[index].st_shndx != SHN_UNDEF)
			return &symbols[index];
		if (chained & 1)
			return NULL;
	}
}

static const char *file_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path ? path : "";
}

static int visit(struct dl_phdr_info *info, size_t size, void *context)
{
	struct wanted *wanted = context;
	if (strncmp(file_name(info->dlpi_name), wanted->library, strlen(wanted->library)) != 0)
		return 0;
	const ElfW(Dyn) *dynamic = NULL;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *gnu = NULL;
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		/* glibc has made these addresses absolute */
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const ElfW(Sym) *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_STRTAB)
			strings = (const char *)dynamic->d_un.d_ptr;
		else if (dynamic->d_tag == DT_GNU_HASH)
			gnu = (const uint32_t *)dynamic->d_un.d_ptr;
	}
	const ElfW(Sym) *symbol =
	        symbols && strings && gnu ? find_gnu(gnu, symbols, strings, wanted->symbol) : NULL;
	if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		return 0;
	wanted->found = (void *)(info->dlpi_addr + symbol->st_value);
	return 1;
}

void *gm_agent_lookup(const char *library, const char *symbol)
{
	struct wanted wanted = {.library = library, .symbol = symbol};
	dl_iterate_phdr(visit, &wanted);
	return wanted.found;
}
