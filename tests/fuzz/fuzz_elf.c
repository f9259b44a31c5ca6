/*
 * Any bytes as an ELF file, as a target, a core or --sysroot gives it: it is opened or refused, and
 * its symbols, its build-id, its frames' rules and its source lines can be read. The first byte
 * chooses: odd, the rest is the file; even, it is put together to sections that lie within it, as
 * hardly any random bytes would.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "image/build_id.h"
#include "symbols/debug_file.h"
#include "symbols/elf_file.h"
#include "symbols/lines.h"
#include "symbols/names.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SECTIONS = 8, SYMBOLS_LOOKED_AT = 64 };

/* Bytes of the input, zeros behind its end. */
struct input {
	const uint8_t *data;
	size_t size;
};

static void take(struct input *input, void *bytes, size_t size)
{
	size_t there = size < input->size ? size : input->size;
	memset(bytes, 0, size);
	if (there > 0)
		memcpy(bytes, input->data, there);
	input->data += there;
	input->size -= there;
}

static const struct {
	const char *name;
	uint32_t type, entry;
} kinds[] = {
        {".dynsym", SHT_DYNSYM, sizeof(Elf64_Sym)},
        {".symtab", SHT_SYMTAB, sizeof(Elf64_Sym)},
        {".dynstr", SHT_STRTAB, 0},
        {".gnu.hash", SHT_GNU_HASH, 0},
        {".gnu.version", SHT_GNU_versym, 2},
        {".note.gnu.build-id", SHT_NOTE, 0},
        {".eh_frame", SHT_PROGBITS, 0},
        {".gnu_debuglink", SHT_PROGBITS, 0},
        {".debug_info", SHT_PROGBITS, 0},
        {".debug_line", SHT_PROGBITS, 0},
        {".debug_abbrev", SHT_PROGBITS, 0},
        {".debug_aranges", SHT_PROGBITS, 0},
        {".debug_ranges", SHT_PROGBITS, 0},
        {".debug_rnglists", SHT_PROGBITS, 0},
        {".debug_str", SHT_PROGBITS, 0},
        {".debug_line_str", SHT_PROGBITS, 0},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* A section's description: its kind, flags that make it odd, then where it begins and ends in what
 * follows all of them. */
struct described {
	uint8_t kind, odd;
	uint16_t offset, size;
};

static void describe(const struct described *from, size_t content, size_t room, Elf64_Shdr *header)
{
	size_t at = room ? from->offset % room : 0;
	header->sh_type = kinds[from->kind % KINDS].type;
	header->sh_name = 1 + from->kind % KINDS * 20;
	header->sh_entsize = kinds[from->kind % KINDS].entry;
	header->sh_link = from->odd % SECTIONS;
	header->sh_offset = content + at;
	header->sh_size = from->size < room - at ? from->size : room - at;
	if (header->sh_type == SHT_STRTAB) /* up to the end, where there is a NUL */
		header->sh_size = room - at;
	if (from->odd & 0x80)
		header->sh_size = from->size * UINT64_C(0x10001);
	if (from->odd & 0x40)
		header->sh_offset = UINT64_MAX - from->offset;
	if (from->odd & 0x20)
		header->sh_flags = SHF_COMPRESSED;
}

/* The caller frees it. */
static uint8_t *put_together(struct input *input, size_t *ret_size)
{
	struct described sections[SECTIONS];
	Elf64_Shdr headers[SECTIONS + 2] = {{0}};
	char names[KINDS * 20 + 1] = "";
	uint8_t shape;
	take(input, &shape, sizeof(shape));
	size_t count = 1 + shape % SECTIONS;
	take(input, sections, count * sizeof(*sections));
	for (size_t i = 0; i < KINDS; i++)
		strcpy(names + 1 + i * 20, kinds[i].name);
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	        .e_type = ET_DYN,
	        .e_machine = EM_X86_64,
	        .e_version = EV_CURRENT,
	        .e_ehsize = sizeof(header),
	        .e_shoff = sizeof(header),
	        .e_shentsize = sizeof(Elf64_Shdr),
	        .e_shnum = (Elf64_Half)(count + 2),
	        .e_shstrndx = (Elf64_Half)(count + 1),
	        .e_phentsize = sizeof(Elf64_Phdr)};
	size_t names_at = sizeof(header) + (count + 2) * sizeof(*headers);
	size_t content = names_at + sizeof(names), room = input->size + 1;
	for (size_t i = 0; i < count; i++)
		describe(&sections[i], content, room, &headers[i + 1]);
	headers[count + 1] = (Elf64_Shdr){
	        .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names)};
	uint8_t *file = calloc(1, content + room);
	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), headers, (count + 2) * sizeof(*headers));
	memcpy(file + names_at, names, sizeof(names));
	if (input->size)
		memcpy(file + content, input->data, input->size);
	*ret_size = content + room;
	return file;
}

struct bytes {
	const uint8_t *at;
	size_t size;
};

static bool read_bytes(void *context, uint64_t offset, void *buffer, size_t size)
{
	const struct bytes *bytes = context;
	if (offset > bytes->size || size > bytes->size - offset)
		return false;
	memcpy(buffer, bytes->at + offset, size);
	return true;
}

static void look_at_build_id(const uint8_t *file, size_t size)
{
	struct gm_build_id id = {0};
	char text[GM_BUILD_ID_TEXT];
	struct bytes bytes = {file, size};
	if (gm_build_id_read(read_bytes, &bytes, &id) &&
	        (id.size == 0 || id.size > GM_BUILD_ID_MAX ||
	                strlen(gm_build_id_text(&id, text)) != 2 * id.size))
		abort();
	if (gm_build_id_in_notes(file, size, 32, &id) && id.size > 32)
		abort();
}

static void look_at_table(const struct gm_elf *file, const struct gm_symbol_table *table, bool full)
{
	for (size_t i = 0; i < table->count && i < SYMBOLS_LOOKED_AT; i++) {
		Elf64_Sym symbol = gm_symbol_entry(table, i), found;
		const char *name = gm_symbol_name(table, symbol.st_name);
		if (!gm_symbol_defined(&symbol))
			continue;
		if (gm_elf_lookup(file, name, full, &found) && !gm_symbol_defined(&found))
			abort();
		free(gm_demangle(name));
	}
}

static void look_at_lines(struct gm_elf *file)
{
	struct gm_line_request requests[] = {
	        {.address = 0}, {.address = 1}, {.address = 0x1000}, {.address = 0x7fff}};
	struct gm_names names = {0};
	gm_lines_find(file, requests, sizeof(requests) / sizeof(*requests), &names);
	gm_names_deinit(&names);
}

static void look_at_file(struct gm_elf *file)
{
	Elf64_Sym symbol;
	Dwarf_Frame *frame;
	look_at_table(file, &file->dynamic, false);
	look_at_table(file, &file->full, true);
	gm_elf_lookup(file, "cudaMalloc", true, &symbol);
	uint64_t address;
	gm_elf_lookup_import(file, "cudaMalloc", &address);
	gm_elf_close(gm_debug_file_open(file, "/nonexistent/library.so", "/nonexistent"));
	Dwarf_CFI *cfi = gm_elf_cfi(file);
	if (cfi && dwarf_cfi_addrframe(cfi, 0x1000, &frame) == 0)
		free(frame);
	look_at_lines(file);
}

static void look_by_path(const uint8_t *bytes, size_t size)
{
	static const uint64_t offsets[] = {0, 1, 0x1000, 0x7fff, UINT64_MAX};
	enum { OFFSETS = sizeof(offsets) / sizeof(*offsets) };
	char path[64], *names[OFFSETS] = {NULL};
	_cleanup_close_ int fd = memfd_create("elf", 0);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct gm_error *error = gm_symbols_name_in_file(path, NULL, 0, offsets, OFFSETS, names);
	for (size_t i = 0; !error && i < OFFSETS; i++)
		free(names[i]);
	gm_error_destroy(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_elf *file = NULL;
	if (size < 2)
		return 0;
	uint8_t choice = data[0], *bytes;
	struct input input = {data + 1, size - 1};
	if (choice % 2) {
		bytes = malloc(--size);
		memcpy(bytes, data + 1, size);
	} else {
		bytes = put_together(&input, &size);
	}
	look_at_build_id(bytes, size);
	if (choice & 2)
		look_by_path(bytes, size);
	struct gm_error *error = gm_elf_open_memory(bytes, size, &file); /* takes the bytes */
	if (!error)
		look_at_file(file);
	else if (error->status != GM_CORRUPT)
		abort();
	gm_error_destroy(error);
	if (!error)
		gm_elf_close(file);
	return 0;
}
