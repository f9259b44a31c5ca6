/*
 * From a symbol's name to its address. .dynsym is searched through the GNU hash table, as the
 * dynamic linker does it. .symtab, which is not sorted and has hundreds of thousands of entries in
 * torch's libraries, is never indexed: the name is searched in its strings first, then the entries
 * for the offsets that were found.
 */
#include <string.h>

#include "symbols/find_bytes.h"
#include "symbols/internal.h"

enum { TAILS_MAX = 64 };

static uint32_t load_u32(const uint8_t *bytes)
{
	uint32_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;
	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static bool name_is(const struct gm_symbol_table *table, uint32_t offset, const char *name)
{
	return offset < table->strings_size && strcmp(table->strings + offset, name) == 0;
}

/* Not the default version ("memcpy@GLIBC_2.2.5"): used only if there is no other. */
static bool is_hidden_version(const struct gm_symbol_table *table, size_t index)
{
	if (!table->versions)
		return false;
	uint16_t version;
	memcpy(&version, table->versions + index * sizeof(version), sizeof(version));
	return version & 0x8000;
}

/* Layout: glibc elf/dl-lookup.c and https://flapenguin.me/elf-dt-gnu-hash: four words, the Bloom
 * filter, the buckets, then one word for each symbol, with the hash in its upper 31 bits and the
 * end of the chain in bit 0. */
static bool lookup_hashed(const struct gm_elf *file, const char *name, Elf64_Sym *ret_symbol)
{
	const uint8_t *table = file->gnu_hash;
	size_t words = file->gnu_hash_size / 4;
	if (words < 4)
		return false;
	uint64_t buckets = load_u32(table), first = load_u32(table + 4);
	uint64_t bloom_words = load_u32(table + 8), shift = load_u32(table + 12) & 31;
	uint64_t bucket_at = 4 + bloom_words * 2, chain_at = bucket_at + buckets;
	if (buckets == 0 || bloom_words == 0 || chain_at > words)
		return false;
	uint32_t hash = gnu_hash_of(name);
	uint64_t bloom;
	memcpy(&bloom, table + 16 + hash / 64 % bloom_words * 8, sizeof(bloom));
	if (!(bloom >> hash % 64 & bloom >> (hash >> shift) % 64 & 1))
		return false;
	bool found = false;
	uint64_t index = load_u32(table + (bucket_at + hash % buckets) * 4);
	if (index < first)
		return false;
	for (; index < file->dynamic.count && chain_at + index - first < words; index++) {
		uint32_t link = load_u32(table + (chain_at + index - first) * 4);
		if ((link | 1) == (hash | 1)) {
			Elf64_Sym symbol = gm_symbol_entry(&file->dynamic, index);
			if (gm_symbol_defined(&symbol) &&
			        name_is(&file->dynamic, symbol.st_name, name)) {
				bool hidden = is_hidden_version(&file->dynamic, index);
				if (!hidden || !found)
					*ret_symbol = symbol;
				found = true;
				if (!hidden)
					return true;
			}
		}
		if (link & 1)
			break;
	}
	return found;
}

/* The next occurrence of the name, with its NUL, from an offset on; SIZE_MAX: none. */
static size_t find_string(const struct gm_symbol_table *table, const char *name, size_t from)
{
	size_t length = strlen(name) + 1;
	if (!table->strings || table->strings_size < length)
		return SIZE_MAX;
	return gm_find_bytes(table->strings, table->strings_size, name, length, from);
}

/* The symbol whose name is at that offset. */
static bool lookup_offset(const struct gm_symbol_table *table, size_t offset, Elf64_Sym *ret_symbol)
{
	for (size_t i = 0; i < table->count; i++) {
		uint32_t name;
		memcpy(&name, table->entries + i * sizeof(Elf64_Sym), sizeof(name)); /* st_name */
		if (name != offset)
			continue;
		Elf64_Sym symbol = gm_symbol_entry(table, i);
		if (gm_symbol_defined(&symbol)) {
			*ret_symbol = symbol;
			return true;
		}
	}
	return false;
}

/* Linkers let a name be the end of another, so it may be at several offsets. */
static bool lookup_linear(
        const struct gm_symbol_table *table, const char *name, Elf64_Sym *ret_symbol)
{
	size_t offset = find_string(table, name, 0);
	for (unsigned i = 0; i < TAILS_MAX && offset <= UINT32_MAX; i++) {
		if (lookup_offset(table, offset, ret_symbol))
			return true;
		offset = find_string(table, name, offset + 1);
	}
	return false;
}

bool gm_elf_lookup(const struct gm_elf *file, const char *name, bool full, Elf64_Sym *ret_symbol)
{
	if (!*name)
		return false;
	if (full)
		return lookup_linear(&file->full, name, ret_symbol);
	if (file->gnu_hash)
		return lookup_hashed(file, name, ret_symbol);
	return lookup_linear(&file->dynamic, name, ret_symbol);
}

static bool lookup_in(struct gm_symbols *symbols, const struct gm_module *module, const char *name,
        bool full, Elf64_Sym *ret_symbol)
{
	struct gm_elf *file = gm_symbols_file(symbols, module);
	if (!file)
		return false;
	if (!full)
		return gm_elf_lookup(file, name, false, ret_symbol);
	if (file->full.count == 0)
		file = gm_symbols_debug_file(symbols, module);
	return file && gm_elf_lookup(file, name, true, ret_symbol);
}

bool gm_symbols_lookup(struct gm_symbols *symbols, const struct gm_module *module,
        const char *linkage_name, uint64_t *ret_address, uint64_t *ret_size)
{
	Elf64_Sym symbol;
	if (!lookup_in(symbols, module, linkage_name, false, &symbol) &&
	        !lookup_in(symbols, module, linkage_name, true, &symbol))
		return false;
	*ret_address = module->bias + symbol.st_value;
	if (ret_size)
		*ret_size = symbol.st_size;
	return true;
}

bool gm_symbols_lookup_any(struct gm_symbols *symbols, const char *linkage_name,
        uint64_t *ret_address, const struct gm_module **ret_module)
{
	/* All the fast tables first. */
	for (int full = 0; full <= 1; full++) {
		for (size_t i = 0; i < symbols->count; i++) {
			const struct gm_module *module = &symbols->modules[i];
			Elf64_Sym symbol;
			if (!symbols->states[i].loaded ||
			        !lookup_in(symbols, module, linkage_name, full, &symbol))
				continue;
			*ret_address = module->bias + symbol.st_value;
			if (ret_module)
				*ret_module = module;
			return true;
		}
	}
	return false;
}
