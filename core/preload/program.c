#include "preload/program.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HEADERS_MAX = 128, SCRIPTS_MAX = 5 /* the kernel's own bound */ };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { OWN_DATA = ELFDATA2LSB };
#else
enum { OWN_DATA = ELFDATA2MSB };
#endif
#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#endif

/* System calls directly: libc's functions are cancellation points, and exec is not. */
static ssize_t read_at(int fd, void *ret, size_t size, uint64_t at)
{
	return at > INT64_MAX ? -1 : syscall(SYS_pread64, fd, ret, size, (off_t)at);
}

/* -1: not a regular file. Opening a FIFO would block, and opening a device may have effects. */
static int open_regular(int folder, const char *path)
{
	struct stat status;
	if (fstatat(folder, path, &status, 0) != 0 || !S_ISREG(status.st_mode))
		return -1;
	return (int)syscall(SYS_openat, folder, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool gm_preload_is_musl(const char *linker)
{
	return strncmp(base_name(linker), "ld-musl-", 8) == 0;
}

/* A name that is too long or not terminated is left empty. */
static void read_linker(int fd, const Elf64_Ehdr *header, char ret[GM_PRELOAD_LINE])
{
	Elf64_Phdr segment;
	if (header->e_phentsize != sizeof(segment))
		return;
	for (unsigned i = 0; i < header->e_phnum && i < HEADERS_MAX; i++) {
		uint64_t at;
		if (__builtin_add_overflow(header->e_phoff, i * sizeof(segment), &at) ||
		        read_at(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return;
		if (segment.p_type != PT_INTERP)
			continue;
		ssize_t count = segment.p_filesz < GM_PRELOAD_LINE
		                        ? read_at(fd, ret, segment.p_filesz, segment.p_offset)
		                        : 0;
		if (count <= 0 || !memchr(ret, 0, (size_t)count))
			ret[0] = 0;
		return;
	}
}

static bool read_elf(int fd, struct gm_preload_program *ret)
{
	Elf64_Ehdr header;
	ssize_t count = read_at(fd, &header, sizeof(header), 0);
	if (count < (ssize_t)sizeof(Elf32_Ehdr) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	ret->class = header.e_ident[EI_CLASS];
	ret->data = header.e_ident[EI_DATA];
	if (ret->class != ELFCLASS64 || ret->data != OWN_DATA)
		return true;
	if (count != (ssize_t)sizeof(header))
		return false;
	ret->machine = header.e_machine;
	read_linker(fd, &header, ret->linker);
	return true;
}

/* The interpreter in a script's first line. */
static bool read_script(int fd, char ret[GM_PRELOAD_LINE])
{
	char line[GM_PRELOAD_LINE];
	ssize_t count = read_at(fd, line, sizeof(line) - 1, 0);
	line[count > 0 ? count : 0] = 0;
	if (line[0] != '#' || line[1] != '!')
		return false;
	const char *begin = line + 2 + strspn(line + 2, " \t");
	size_t length = strcspn(begin, " \t\n");
	memcpy(ret, begin, length);
	ret[length] = 0;
	return length > 0;
}

bool gm_preload_read(int folder, const char *path, struct gm_preload_program *ret)
{
	char interpreter[GM_PRELOAD_LINE];
	*ret = (struct gm_preload_program){0};
	for (int i = 0; i <= SCRIPTS_MAX; i++) {
		int fd = open_regular(folder, path);
		if (fd < 0)
			return false;
		bool elf = read_elf(fd, ret);
		bool script = !elf && read_script(fd, interpreter);
		syscall(SYS_close, fd);
		if (elf)
			ret->is_linker_of_musl = !ret->linker[0] && gm_preload_is_musl(path);
		if (!script)
			return elf;
		folder = AT_FDCWD;
		path = interpreter;
	}
	return false;
}

static bool same_file(const char *one, const char *other)
{
	struct stat first, second;
	return fstatat(AT_FDCWD, one, &first, 0) == 0 &&
	       fstatat(AT_FDCWD, other, &second, 0) == 0 && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

bool gm_preload_fits(const struct gm_preload_program *program, const char *linker)
{
	if (program->class != ELFCLASS64 || program->data != OWN_DATA ||
	        program->machine != OWN_MACHINE || program->is_linker_of_musl)
		return false;
	if (!program->linker[0] || !linker[0])
		return !gm_preload_is_musl(program->linker);
	/* glibc has one name for each ABI, in any folder; a link may have another one. */
	return strcmp(base_name(program->linker), base_name(linker)) == 0 ||
	       same_file(program->linker, linker);
}
