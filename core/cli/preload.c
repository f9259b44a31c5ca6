#include "cli/preload.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { HEADERS_MAX = 128, INTERPRETER_MAX = 256, SCRIPTS_MAX = 4 };

/* The file of a program without a slash in its name; false: there is none. */
static bool find(const char *name, char *ret_path, size_t size)
{
	const char *path = getenv("PATH");
	if (strchr(name, '/'))
		return (size_t)snprintf(ret_path, size, "%s", name) < size;
	for (const char *at = path ? path : "/bin:/usr/bin"; at;) {
		size_t length = strcspn(at, ":");
		int wrote = snprintf(ret_path, size, "%.*s/%s", length ? (int)length : 1,
		        length ? at : ".", name);
		if (wrote > 0 && (size_t)wrote < size && access(ret_path, X_OK) == 0)
			return true;
		at = at[length] ? at + length + 1 : NULL;
	}
	return false;
}

/* The dynamic linker that a program names; "": none. */
static void read_interpreter(int fd, char ret[INTERPRETER_MAX])
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	ret[0] = 0;
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	        header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segment))
		return;
	for (int i = 0; i < header.e_phnum && i < HEADERS_MAX; i++) {
		off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof(segment));
		if (pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return;
		if (segment.p_type != PT_INTERP || segment.p_filesz >= INTERPRETER_MAX)
			continue;
		ssize_t count = pread(fd, ret, segment.p_filesz, (off_t)segment.p_offset);
		ret[count > 0 ? count : 0] = 0;
		return;
	}
}

bool gm_program_is_of_musl(const char *name)
{
	char path[PATH_MAX], line[PATH_MAX];
	if (!find(name, path, sizeof(path)))
		return false;
	for (int i = 0; i < SCRIPTS_MAX; i++) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t count = fd >= 0 ? pread(fd, line, sizeof(line) - 1, 0) : 0;
		line[count > 0 ? count : 0] = 0;
		bool script = count > 2 && line[0] == '#' && line[1] == '!';
		if (!script) {
			char interpreter[INTERPRETER_MAX] = "";
			if (fd >= 0)
				read_interpreter(fd, interpreter);
			return strstr(interpreter, "/ld-musl-") != NULL;
		}
		const char *begin = line + 2 + strspn(line + 2, " \t");
		snprintf(path, sizeof(path), "%.*s", (int)strcspn(begin, " \t\n"), begin);
	}
	return false;
}
