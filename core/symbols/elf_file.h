/*
 * An ELF file opened for its tables: the symbol tables, found through the section headers by libelf
 * and then read in place. Only x86-64 files are taken. What a damaged file says is checked once,
 * here; the tables handed out are within the file.
 */
#ifndef GM_SYMBOLS_ELF_FILE_H
#define GM_SYMBOLS_ELF_FILE_H

#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>

#include "base/error.h"

/* A symbol table with its strings, in place in the file and not necessarily aligned. */
struct gm_symbol_table {
	const uint8_t *entries; /* `count` times Elf64_Sym */
	size_t count;
	const char *strings; /* the last byte is NUL */
	size_t strings_size;
	const uint8_t *versions; /* `count` times uint16_t, or NULL */
};

struct gm_elf {
	char *path; /* as we open it */
	Elf *elf;
	void *memory;          /* owned, where the file is not on disk (vdso) */
	const uint8_t *mapped; /* base/mapped_file.h; NULL: it is in `memory` */
	size_t mapped_size;
	struct gm_symbol_table dynamic, full; /* .dynsym, .symtab; count 0: none */
	const uint8_t *gnu_hash;
	size_t gnu_hash_size;
	bool has_dwarf; /* .debug_info and .debug_line */
	uint8_t build_id[32];
	uint32_t build_id_size;
	Dwarf_CFI *cfi;
	bool cfi_opened;
	Dwarf *dwarf;
	bool dwarf_opened;
};

/* GM_CORRUPT: no ELF file of x86-64, or a damaged one; GM_TARGET: it cannot be opened. */
struct gm_error *gm_elf_open(const char *path, struct gm_elf **ret_file);
/* The same from memory, which is taken over. */
struct gm_error *gm_elf_open_memory(void *memory, size_t size, struct gm_elf **ret_file);
void gm_elf_close(struct gm_elf *file);

/* A section's bytes as they are in the file; false where it is empty, compressed or not all
 * there. */
bool gm_elf_section_bytes(
        Elf_Scn *section, const GElf_Shdr *header, const uint8_t **ret_bytes, size_t *ret_size);

/* Call frame information; NULL: none. Opened when first asked for. */
Dwarf_CFI *gm_elf_cfi(struct gm_elf *file);
/* Debug information; NULL: none that libdw can read. Opened when first asked for. */
Dwarf *gm_elf_dwarf(struct gm_elf *file);

static inline Elf64_Sym gm_symbol_entry(const struct gm_symbol_table *table, size_t index)
{
	Elf64_Sym symbol;
	__builtin_memcpy(&symbol, table->entries + index * sizeof(symbol), sizeof(symbol));
	return symbol;
}

/* The name at an offset of the table's strings; "" where the offset is out of them. */
static inline const char *gm_symbol_name(const struct gm_symbol_table *table, uint32_t offset)
{
	return offset < table->strings_size ? table->strings + offset : "";
}

/* A defined symbol of code or data, with an address. */
static inline bool gm_symbol_defined(const Elf64_Sym *symbol)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	return symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
	       symbol->st_value != 0 &&
	       (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE ||
	               type == STT_GNU_IFUNC);
}

/* Finds a defined symbol by its name; .dynsym by its hash table, .symtab only where `full` is
 * true. */
bool gm_elf_lookup(const struct gm_elf *file, const char *name, bool full, Elf64_Sym *ret_symbol);
/* Finds the entry of the procedure linkage table for a function of another library: its address in
 * the file. */
bool gm_elf_lookup_import(const struct gm_elf *file, const char *name, uint64_t *ret_address);

#endif
