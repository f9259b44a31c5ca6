/*
 * Where a library calls a function of another one: the entry of its procedure linkage table (System
 * V ABI, AMD64 supplement, "Procedure Linkage Table"). An entry jumps to the address in a word of
 * the library's data, for which there is a relocation. The entry is found by that relocation, and
 * accepted only if its instruction jumps through that word.
 */
#include <string.h>

#include "base/allocation.h"
#include "symbols/internal.h"

enum { ENTRY_STEP = 8 }; /* .plt.got has entries of 8 bytes, the others of 16 */

/* The word of a jump `jmp *offset(%rip)` at an address in the file; UINT64_MAX: it is not one. */
static uint64_t word_of_jump(const uint8_t *code, size_t size, uint64_t address)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = size >= sizeof(endbr64) && memcmp(code, endbr64, sizeof(endbr64)) == 0
	                    ? sizeof(endbr64)
	                    : 0;
	at += at < size && code[at] == 0xf2; /* bnd */
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return UINT64_MAX;
	int32_t offset;
	memcpy(&offset, code + at + 2, sizeof(offset));
	return address + at + 6 + (uint64_t)(int64_t)offset;
}

static bool find_jump(
        const uint8_t *code, size_t size, uint64_t address, uint64_t word, uint64_t *ret_address)
{
	for (size_t at = 0; at < size; at += ENTRY_STEP)
		if (word_of_jump(code + at, size - at, address + at) == word) {
			*ret_address = address + at;
			return true;
		}
	return false;
}

/* The word that a relocation of calls sets to the function's address. */
static bool find_word(const struct gm_elf *file, const uint8_t *entries, size_t size,
        const char *name, uint64_t *ret_word)
{
	const struct gm_symbol_table *symbols = &file->dynamic;
	for (size_t at = 0; at + sizeof(Elf64_Rela) <= size; at += sizeof(Elf64_Rela)) {
		Elf64_Rela relocation;
		memcpy(&relocation, entries + at, sizeof(relocation));
		size_t index = ELF64_R_SYM(relocation.r_info);
		if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_JUMP_SLOT ||
		        index >= symbols->count)
			continue;
		Elf64_Sym symbol = gm_symbol_entry(symbols, index);
		if (strcmp(gm_symbol_name(symbols, symbol.st_name), name) != 0)
			continue;
		*ret_word = relocation.r_offset;
		return true;
	}
	return false;
}

bool gm_elf_lookup_import(const struct gm_elf *file, const char *name, uint64_t *ret_address)
{
	size_t names;
	uint64_t word = 0;
	const uint8_t *bytes;
	size_t size;
	bool has_word = false;
	GElf_Shdr header;
	if (elf_getshdrstrndx(file->elf, &names) != 0)
		return false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(file->elf, section)) && !has_word;)
		has_word = gelf_getshdr(section, &header) && header.sh_type == SHT_RELA &&
		           gm_elf_section_bytes(section, &header, &bytes, &size) &&
		           find_word(file, bytes, size, name, &word);
	for (Elf_Scn *section = NULL; has_word && (section = elf_nextscn(file->elf, section));) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
		        !(header.sh_flags & SHF_EXECINSTR))
			continue;
		const char *text = elf_strptr(file->elf, names, header.sh_name);
		if (text && strncmp(text, ".plt", 4) == 0 &&
		        gm_elf_section_bytes(section, &header, &bytes, &size) &&
		        find_jump(bytes, size, header.sh_addr, word, ret_address))
			return true;
	}
	return false;
}

bool gm_symbols_lookup_import(struct gm_symbols *symbols, const struct gm_module *module,
        const char *linkage_name, uint64_t *ret_address)
{
	struct gm_elf *file = gm_symbols_file(symbols, module);
	if (!file)
		return false;
	gm_allocation_watch();
	bool found = gm_elf_lookup_import(file, linkage_name, ret_address);
	gm_allocation_watched();
	if (found)
		*ret_address += module->bias;
	return found;
}
