#include "agent/stacks/symbols.h"

#include <elf.h>
#include <string.h>

/* glibc has replaced offsets by addresses if the section is writable. */
static const void *in_memory(const struct dl_phdr_info *info, uint64_t pointer)
{
	return (const void *)(uintptr_t)(pointer < info->dlpi_addr ? pointer + info->dlpi_addr
	                                                           : pointer);
}

bool gm_loaded_symbols_read(const struct dl_phdr_info *info, struct gm_loaded_symbols *ret)
{
	const ElfW(Dyn) *dynamic = NULL;

	*ret = (struct gm_loaded_symbols){.base = info->dlpi_addr};
	/* the tables of the kernel's page contain only offsets, and it has none of the wanted
	 * symbols */
	if (info->dlpi_name && strstr(info->dlpi_name, "linux-vdso"))
		return false;
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(uintptr_t)(info->dlpi_addr +
			                                    info->dlpi_phdr[i].p_vaddr);
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			ret->symbols = in_memory(info, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_STRTAB)
			ret->strings = in_memory(info, dynamic->d_un.d_ptr);
		else if (dynamic->d_tag == DT_GNU_HASH)
			ret->hashed = in_memory(info, dynamic->d_un.d_ptr);
	}
	return ret->symbols && ret->strings && ret->hashed;
}

uint32_t gm_symbol_hash(const char *name)
{
	uint32_t hash = 5381;

	for (const char *at = name; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	return hash;
}

/*
 * glibc elf/dl-lookup.c, do_lookup_x(). Four words: number of buckets, first symbol, words of the
 * Bloom filter, shift. Then the filter, the buckets, and one word for each symbol: its hash, of
 * which bit 0 marks the end of the chain.
 */
const ElfW(Sym) *
        gm_loaded_symbol(const struct gm_loaded_symbols *table, const char *name, uint32_t hash)
{
	uint32_t buckets = table->hashed[0], first = table->hashed[1];
	uint32_t words = table->hashed[2], shift = table->hashed[3];
	const uint64_t *filter = (const void *)(table->hashed + 4);
	const uint32_t *bucket = (const void *)(filter + words), *chain = bucket + buckets;

	if (!buckets || !words)
		return NULL;
	uint64_t word = filter[hash / 64 % words];
	if (!(word >> hash % 64 & 1) || !(word >> (hash >> shift) % 64 & 1))
		return NULL;
	uint32_t index = bucket[hash % buckets];
	if (index < first)
		return NULL;
	for (;; index++) {
		const ElfW(Sym) *symbol = &table->symbols[index];
		uint32_t link = chain[index - first];
		if ((link | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
		        strcmp(table->strings + symbol->st_name, name) == 0)
			return symbol;
		if (link & 1)
			return NULL;
	}
}
