#include "cli/beside.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Seen from `file`, a program in bin/ or libgpumem.so beside it; NULL where it is not there. */
static char *beside(const char *file, const char *library)
{
	/* lib/ARCH is Debian's; a library's own folder comes first. */
	static const char *const folders[] = {".", "../lib", "../lib64", "../lib/x86_64-linux-gnu"};
	_cleanup_free_ char *real = realpath(file, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = 0;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char *path = NULL;
		if (asprintf(&path, "%s/%s/%s", real, folders[i], library) < 0)
			return NULL;
		char *found = realpath(path, NULL);
		free(path);
		if (found)
			return found;
	}
	return NULL;
}

struct gm_error *gm_library_beside(
        const char *library, const char *variable, const char *what, char **ret)
{
	const char *named = getenv(variable);
	Dl_info info;
	*ret = NULL;
	if (named && *named) {
		*ret = realpath(named, NULL);
		return *ret ? NULL
		            : gm_error_create(GM_TARGET,
		                      "%s: %s=%s: there is no such file: name %s", what, variable,
		                      named, library);
	}
	if (dladdr((void *)gm_library_beside, &info) && info.dli_fname)
		*ret = beside(info.dli_fname, library);
	if (!*ret)
		*ret = beside("/proc/self/exe", library);
	return *ret ? NULL
	            : gm_error_create(GM_TARGET,
	                      "%s: %s is not beside this program: install gpumem whole, or set %s",
	                      what, library, variable);
}
