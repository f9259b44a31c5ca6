#include "cli/preload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/program.h"

/* The file of a program given without a slash; false if there is none. */
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

bool gm_program_is_of_musl(const char *name)
{
	char path[PATH_MAX];
	struct gm_preload_program program;
	return find(name, path, sizeof(path)) && gm_preload_read(AT_FDCWD, path, &program) &&
	       (program.is_linker_of_musl || gm_preload_is_musl(program.linker));
}
