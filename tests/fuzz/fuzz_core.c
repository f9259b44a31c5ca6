/*
 * Any bytes as a core dump: it is opened or refused, and everything in it can be looked at, by the
 * reader and by what stands on it (modules, symbols, unwinding, Python). The first byte chooses:
 * odd, a file's bytes; even, what follows is put together to headers and notes that hold, as hardly
 * any random bytes would.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cpython/cpython.h"
#include "image/image.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 16, MAPPINGS = 64, PARTS = 8, PAGE = 4096 };

static void look_at_memory(struct gm_image *image)
{
	static char bytes[2 * PAGE];
	size_t count;
	const struct gm_mapping *mappings = gm_image_mappings(image, &count);
	for (size_t i = 0; i < count; i++) {
		if (mappings[i].start >= mappings[i].end ||
		        (i > 0 && mappings[i].start < mappings[i - 1].end))
			abort();
		if (gm_image_find_mapping(image, mappings[i].end - 1) != &mappings[i])
			abort();
		if (i >= MAPPINGS)
			continue;
		gm_image_read_some(image, mappings[i].start, bytes, sizeof(bytes));
		gm_error_destroy(gm_image_read(image, mappings[i].end - 8, bytes, 16));
		char *path;
		if (!gm_image_file_path(image, mappings[i].path, &path))
			free(path);
		else
			abort();
	}
	_cleanup_free_ struct gm_image_file *files = NULL;
	gm_error_destroy(gm_image_files(image, &files, &count));
	gm_error_destroy(gm_image_check_whole(image));
}

static void look_at_rest(struct gm_image *image)
{
	struct gm_symbols *symbols = NULL;
	_cleanup_free_ pid_t *threads = NULL;
	size_t count;
	gm_error_destroy(gm_image_threads(image, &threads, &count));
	gm_error_destroy(gm_symbols_create(image, &symbols));
	for (size_t i = 0; symbols && i < count && i < 4; i++) {
		struct gm_registers registers;
		uint64_t addresses[DEPTH];
		gm_error_destroy(gm_image_registers(image, threads[i], &registers));
		gm_symbols_unwind(symbols, &registers, addresses, DEPTH);
	}
	struct gm_python *python = NULL;
	if (symbols)
		gm_error_destroy(gm_python_open(image, symbols, &python));
	gm_python_close(python);
	gm_symbols_destroy(symbols);
}

static void put(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		abort();
}

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

static uint64_t number(struct input *input)
{
	uint64_t value;
	take(input, &value, sizeof(value));
	return value;
}

static size_t add_note(uint8_t *notes, size_t at, uint32_t type, const void *content, uint32_t size)
{
	Elf64_Nhdr head = {5, size, type};
	memcpy(notes + at, &head, sizeof(head));
	memcpy(notes + at + sizeof(head), "CORE\0\0\0", 8);
	memcpy(notes + at + sizeof(head) + 8, content, size);
	return at + sizeof(head) + 8 + (size + 3) / 4 * 4;
}

/* Segments near each other, a thread or two, mapped files: numbers are the input's. */
static void put_core(int fd, struct input *input)
{
	static uint8_t notes[64 << 10];
	uint8_t shape[4];
	take(input, shape, sizeof(shape));
	size_t parts = 1 + shape[0] % PARTS, note_size = 0;
	uint8_t kinds[PARTS + 1][8] = {{0}};
	for (size_t i = 1; i <= parts; i++)
		take(input, kinds[i], sizeof(kinds[i]));
	for (int i = 0; i <= shape[1] % 3; i++) {
		struct elf_prstatus status = {.pr_pid = i + 1};
		uint8_t where[2];
		take(input, where, sizeof(where));
		struct user_regs_struct registers = {
		        .rip = where[0] % 64 * (uint64_t)PAGE, .rsp = where[1] * (uint64_t)1024};
		memcpy(&status.pr_reg, &registers, sizeof(registers));
		note_size = add_note(notes, note_size, NT_PRSTATUS, &status, sizeof(status));
	}
	struct {
		uint64_t head[2], words[3][3];
		char paths[48];
	} files = {.head = {1 + shape[2] % 4, PAGE},
	        .paths = "/proc/self/exe\0/nonexistent\0/proc/self/maps"};
	uint8_t where[9];
	take(input, where, sizeof(where));
	for (size_t i = 0; i < 9; i++)
		files.words[i / 3][i % 3] =
		        i % 3 == 2 ? where[i] % 4 : where[i] % 64 * (uint64_t)PAGE;
	note_size = add_note(notes, note_size, NT_FILE, &files, sizeof(files));
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	        .e_type = ET_CORE,
	        .e_machine = EM_X86_64,
	        .e_phoff = sizeof(header),
	        .e_phentsize = sizeof(Elf64_Phdr),
	        .e_phnum = (Elf64_Half)(parts + 1)};
	Elf64_Phdr headers[PARTS + 2] = {{0}};
	uint64_t offset = sizeof(header) + (parts + 1) * sizeof(*headers);
	headers[0] = (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = offset, .p_filesz = note_size};
	offset += note_size;
	for (size_t i = 1; i <= parts; i++) {
		const uint8_t *kind = kinds[i];
		headers[i] = (Elf64_Phdr){.p_type = PT_LOAD,
		        .p_flags = kind[0] % 8 | (kind[1] & 1 ? 0x08000000u : 0),
		        .p_vaddr = kind[2] % 64 * (uint64_t)PAGE,
		        .p_memsz = kind[3] % 16 * (uint64_t)PAGE,
		        .p_filesz = kind[4] % 16 * (uint64_t)PAGE / 2,
		        .p_offset = offset + kind[5] % 4 * (uint64_t)PAGE};
		if (kind[6] == 0xff)
			headers[i].p_vaddr = number(input);
		if (kind[7] == 0xff)
			headers[i].p_memsz = number(input);
	}
	put(fd, &header, sizeof(header));
	put(fd, headers, (parts + 1) * sizeof(*headers));
	put(fd, notes, note_size);
	put(fd, input->data, input->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("core", 0);
	if (fd < 0)
		abort();
	struct input input = {data, size};
	if (size > 0 && data[0] % 2 == 0) {
		input.data++;
		input.size--;
		put_core(fd, &input);
	} else if (size > 0) {
		put(fd, data + 1, size - 1);
	}
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct gm_image *image = NULL;
	struct gm_error *error = gm_image_open_core(path, &image);
	if (error) {
		if (error->status != GM_CORRUPT && error->status != GM_TARGET)
			abort();
		gm_error_destroy(error);
		return 0;
	}
	look_at_memory(image);
	look_at_rest(image);
	gm_image_close(image);
	return 0;
}
