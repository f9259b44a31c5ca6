#include "symbols/elf_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/mapped_file.h"
#include "base/regular_file.h"

static struct gm_error *error_corrupt(const char *path, const char *why)
{
	return gm_error_create(
	        GM_CORRUPT, "%s: %s: give the library that the program uses", path, why);
}

bool gm_elf_section_bytes(
        Elf_Scn *section, const GElf_Shdr *header, const uint8_t **ret_bytes, size_t *ret_size)
{
	if (header->sh_type == SHT_NOBITS || (header->sh_flags & SHF_COMPRESSED))
		return false;
	Elf_Data *data = elf_rawdata(section, NULL);
	if (!data || !data->d_buf || data->d_size == 0)
		return false;
	*ret_bytes = data->d_buf;
	*ret_size = data->d_size;
	return true;
}

static void read_table(
        Elf *elf, Elf_Scn *section, const GElf_Shdr *header, struct gm_symbol_table *table)
{
	Elf_Scn *strings = elf_getscn(elf, header->sh_link);
	GElf_Shdr strings_header;
	const uint8_t *entries, *text;
	size_t entries_size, text_size;
	if (header->sh_entsize != sizeof(Elf64_Sym) || !strings ||
	        !gelf_getshdr(strings, &strings_header) || strings_header.sh_type != SHT_STRTAB ||
	        !gm_elf_section_bytes(section, header, &entries, &entries_size) ||
	        !gm_elf_section_bytes(strings, &strings_header, &text, &text_size) ||
	        text[text_size - 1] != '\0')
		return;
	table->entries = entries;
	table->count = entries_size / sizeof(Elf64_Sym);
	table->strings = (const char *)text;
	table->strings_size = text_size;
}

static void read_build_id(Elf *elf, struct gm_elf *file)
{
	const void *bytes;
	ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
	if (size > 0 && (size_t)size <= sizeof(file->build_id)) {
		memcpy(file->build_id, bytes, (size_t)size);
		file->build_id_size = (uint32_t)size;
	}
}

static void read_sections(Elf *elf, struct gm_elf *file)
{
	size_t names;
	if (elf_getshdrstrndx(elf, &names) != 0)
		return;
	bool info = false, lines = false;
	const uint8_t *versions = NULL;
	size_t versions_size = 0;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_DYNSYM)
			read_table(elf, section, &header, &file->dynamic);
		else if (header.sh_type == SHT_SYMTAB)
			read_table(elf, section, &header, &file->full);
		else if (header.sh_type == SHT_GNU_HASH)
			gm_elf_section_bytes(
			        section, &header, &file->gnu_hash, &file->gnu_hash_size);
		else if (header.sh_type == SHT_GNU_versym)
			gm_elf_section_bytes(section, &header, &versions, &versions_size);
		else if (header.sh_type == SHT_PROGBITS) {
			const char *name = elf_strptr(elf, names, header.sh_name);
			info |= name && strcmp(name, ".debug_info") == 0;
			lines |= name && strcmp(name, ".debug_line") == 0;
		}
	}
	file->has_dwarf = info && lines;
	if (versions_size / sizeof(uint16_t) >= file->dynamic.count)
		file->dynamic.versions = versions;
}

static struct gm_error *open_elf(Elf *elf, const char *path, struct gm_elf *file)
{
	GElf_Ehdr header;
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return error_corrupt(path, "it is not an ELF file");
	file->elf = elf;
	if (!gelf_getehdr(elf, &header) || gelf_getclass(elf) != ELFCLASS64 ||
	        header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != EM_X86_64)
		return error_corrupt(path, "it is not an ELF file of x86-64");
	read_sections(elf, file);
	read_build_id(elf, file);
	return NULL;
}

/* Not with libelf's own mapping: the file may become shorter at any moment, which must not end this
 * process. No descriptor stays open for it in the debugger. */
static struct gm_error *map_file(struct gm_elf *file)
{
	_cleanup_close_ int fd = gm_regular_file_open(file->path);
	struct stat about;
	if (fd < 0 && errno == EINVAL)
		return error_corrupt(file->path, gm_regular_file_why(EINVAL));
	if (fd < 0 || fstat(fd, &about) != 0)
		return gm_error_os(GM_TARGET, errno, "%s: it cannot be opened", file->path);
	if (about.st_size <= 0)
		return error_corrupt(file->path, "it is not an ELF file");
	file->mapped = gm_mapped_file_open(fd, (size_t)about.st_size);
	file->mapped_size = (size_t)about.st_size;
	return file->mapped ? NULL : error_corrupt(file->path, "it cannot be read");
}

struct gm_error *gm_elf_open(const char *path, struct gm_elf **ret_file)
{
	elf_version(EV_CURRENT);
	struct gm_elf *file = calloc(1, sizeof(*file));
	if (!file || !(file->path = strdup(path))) {
		gm_elf_close(file);
		return &gm_error_no_memory;
	}
	struct gm_error *error = map_file(file);
	if (!error) {
		gm_allocation_watch();
		/* it is only read: libelf uses its own mappings in the same way */
		Elf *elf = elf_memory((char *)(uintptr_t)file->mapped, file->mapped_size);
		error = open_elf(elf, path, file);
		gm_allocation_watched();
		if (error && elf && !file->elf)
			elf_end(elf);
	}
	if (error) {
		gm_elf_close(file);
		return error;
	}
	*ret_file = file;
	return NULL;
}

struct gm_error *gm_elf_open_memory(void *memory, size_t size, struct gm_elf **ret_file)
{
	elf_version(EV_CURRENT);
	struct gm_elf *file = calloc(1, sizeof(*file));
	if (!file) {
		free(memory);
		return &gm_error_no_memory;
	}
	file->memory = memory;
	gm_allocation_watch();
	Elf *elf = elf_memory(memory, size);
	struct gm_error *error = open_elf(elf, "[vdso]", file);
	gm_allocation_watched();
	if (error) {
		if (elf && !file->elf)
			elf_end(elf);
		gm_elf_close(file);
		return error;
	}
	*ret_file = file;
	return NULL;
}

void gm_elf_close(struct gm_elf *file)
{
	if (!file)
		return;
	if (file->cfi)
		dwarf_cfi_end(file->cfi);
	if (file->dwarf)
		dwarf_end(file->dwarf);
	if (file->elf)
		elf_end(file->elf);
	gm_mapped_file_close(file->mapped, file->mapped_size);
	free(file->memory);
	free(file->path);
	free(file);
}

Dwarf_CFI *gm_elf_cfi(struct gm_elf *file)
{
	if (!file->cfi_opened) {
		file->cfi_opened = true;
		gm_allocation_watch();
		file->cfi = dwarf_getcfi_elf(file->elf);
		gm_allocation_watched();
	}
	return file->cfi;
}

/* libdw decompresses sections, and libelf then changes their headers, in the mapped file. */
static bool make_headers_writable(struct gm_elf *file)
{
	Elf64_Ehdr *header = elf64_getehdr(file->elf);
	size_t count;
	if (!file->mapped)
		return true;
	return header && elf_getshdrnum(file->elf, &count) == 0 &&
	       gm_mapped_file_make_writable(file->mapped, file->mapped_size, header->e_shoff,
	               count * sizeof(Elf64_Shdr));
}

Dwarf *gm_elf_dwarf(struct gm_elf *file)
{
	if (!file->dwarf_opened) {
		file->dwarf_opened = true;
		gm_allocation_watch();
		if (make_headers_writable(file))
			file->dwarf = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
		gm_allocation_watched();
	}
	return file->dwarf;
}
