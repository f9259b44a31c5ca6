/*
 * Reads an interpreter's file for locating it: a section's address, and the version string in
 * .rodata.
 */
#include <ctype.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>

#include "base/allocation.h"
#include "base/cleanup.h"
#include "base/regular_file.h"
#include "cpython/versions/locate.h"

static Elf *open_elf(const struct gm_image *image, const char *path, int *ret_fd)
{
	_cleanup_free_ char *real = NULL;
	struct gm_error *error = gm_image_file_path(image, path, &real);

	if (error) {
		gm_error_destroy(error);
		return NULL;
	}
	elf_version(EV_CURRENT);
	*ret_fd = gm_regular_file_open(real);
	return *ret_fd < 0 ? NULL : elf_begin(*ret_fd, ELF_C_READ_MMAP, NULL);
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
	_cleanup_close_ int fd = -1;
	gm_allocation_watch();
	Elf *elf = open_elf(image, path, &fd);
	GElf_Shdr header;
	bool found = elf && find(elf, section, &header) && header.sh_addr;

	if (found)
		*ret_address = header.sh_addr;
	gm_allocation_watched();
	elf_end(elf);
	return found;
}

/*
 * PY_VERSION is a string of its own ("3.10.13"), between two NULs; or the linker has merged it with
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
		/* "3.10.13" or with "+", "rc1" after it, then the end */
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
	_cleanup_close_ int fd = -1;
	gm_allocation_watch();
	Elf *elf = open_elf(image, path, &fd);
	GElf_Shdr header;
	Elf_Scn *section = elf ? find(elf, ".rodata", &header) : NULL;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	unsigned long hex = 0;

	if (data && data->d_buf)
		hex = gm_python_version_in_bytes(data->d_buf, data->d_size, minor_hex);
	gm_allocation_watched();
	elf_end(elf);
	return hex;
}
