/*
 * Reads an interpreter's file to locate it: a section's address, and the version string in .rodata.
 */
#include <ctype.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/mapped_file.h"
#include "base/regular_file.h"
#include "cpython/versions/locate_file.h"

struct opened {
	Elf *elf; /* NULL: it is not an ELF file, or cannot be read */
	const uint8_t *bytes;
	size_t size;
};

static struct opened open_elf(const struct gm_image *image, const char *path)
{
	_cleanup_free_ char *real = NULL;
	_cleanup_error_ struct gm_error *error = gm_image_file_path(image, path, &real);
	struct opened opened = {0};
	struct stat about;

	elf_version(EV_CURRENT);
	_cleanup_close_ int fd = error ? -1 : gm_regular_file_open(real);
	if (fd < 0 || fstat(fd, &about) != 0 || about.st_size <= 0)
		return opened;
	opened.size = (size_t)about.st_size;
	opened.bytes = gm_mapped_file_open(fd, opened.size);
	if (opened.bytes) /* only read, as if libelf had mapped it itself */
		opened.elf = elf_memory((char *)(uintptr_t)opened.bytes, opened.size);
	return opened;
}

static void close_elf(const struct opened *opened)
{
	elf_end(opened->elf);
	gm_mapped_file_close(opened->bytes, opened->size);
}

static Elf_Scn *find(Elf *elf, const char *name, GElf_Shdr *ret_header)
{
	Elf_Scn *section = NULL;
	size_t strings;

	if (elf_kind(elf) != ELF_K_ELF || elf_getshdrstrndx(elf, &strings))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const char *its_name;
		if (!gelf_getshdr(section, ret_header))
			continue;
		its_name = elf_strptr(elf, strings, ret_header->sh_name);
		if (its_name && !strcmp(its_name, name))
			return section;
	}
	return NULL;
}

bool gm_python_find_section(
        const struct gm_image *image, const char *path, const char *section, uint64_t *ret_address)
{
	gm_allocation_watch();
	struct opened opened = open_elf(image, path);
	Elf *elf = opened.elf;
	GElf_Shdr header;
	bool found = elf && find(elf, section, &header) && header.sh_addr;

	if (found)
		*ret_address = header.sh_addr;
	gm_allocation_watched();
	close_elf(&opened);
	return found;
}

/*
 * PY_VERSION is a separate string ("3.10.13"), between two NULs; or the linker has merged it with
 * the end of a longer one ("/opt/python/3.10.13").
 */
unsigned long gm_python_version_in_bytes(const char *bytes, size_t size, unsigned long minor_hex)
{
	for (size_t i = 0; i + 5 < size; i++) {
		unsigned long part[2] = {0, 0};
		size_t at = i + 2;

		if (bytes[i] != '3' || bytes[i + 1] != '.' ||
		        (i > 0 && bytes[i - 1] && (!minor_hex || !strchr("/-", bytes[i - 1]))))
			continue;
		for (int n = 0; n < 2; n++) {
			size_t first = at;
			while (at < size && isdigit((unsigned char)bytes[at]) && at - first < 3)
				part[n] = part[n] * 10 + (unsigned long)(bytes[at++] - '0');
			if (at == first || (n == 0 && (at >= size || bytes[at++] != '.')))
				goto next;
		}
		/* "3.10.13", optionally followed by "+" or "rc1", at the end */
		for (size_t tail = 0; at < size && bytes[at] && tail < 5; tail++)
			at++;
		if (at >= size || bytes[at] || part[0] < 5 || part[0] > 255 || part[1] > 255)
			continue;
		if (minor_hex && minor_hex != (0x0300 | part[0]))
			continue;
		return 0x03000000UL | part[0] << 16 | part[1] << 8 | 0xf0;
	next:;
	}
	return 0;
}

unsigned long gm_python_version_in_file(
        const struct gm_image *image, const char *path, unsigned long minor_hex)
{
	gm_allocation_watch();
	struct opened opened = open_elf(image, path);
	Elf *elf = opened.elf;
	GElf_Shdr header;
	Elf_Scn *section = elf ? find(elf, ".rodata", &header) : NULL;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	unsigned long hex = 0;

	if (data && data->d_buf)
		hex = gm_python_version_in_bytes(data->d_buf, data->d_size, minor_hex);
	gm_allocation_watched();
	close_elf(&opened);
	return hex;
}
