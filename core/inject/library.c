#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "inject/inject.h"

#define LIBRARY "libgpumem-agent.so"

/* The library seen from `file` (a program in bin/, or libgpumem.so beside it); NULL where it is not there. */
static char *beside(const char *file)
{
	/* lib/ARCH is Debian's; a library's own folder comes first. */
	static const char *const folders[] = {".", "../lib", "../lib64", "../lib/x86_64-linux-gnu"};
	_cleanup_free_ char *real = realpath(file, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = 0;
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		_cleanup_free_ char *path = NULL;
		if (asprintf(&path, "%s/%s/" LIBRARY, real, folders[i]) < 0) {
			path = NULL;
			return NULL;
		}
		char *found = realpath(path, NULL);
		if (found)
			return found;
	}
	return NULL;
}

struct gm_error *gm_inject_library(char **ret_path)
{
	const char *named = getenv("GPUMEM_AGENT_LIBRARY");
	if (named && *named) {
		*ret_path = realpath(named, NULL);
		if (!*ret_path)
			return gm_error_create(GM_TARGET,
			        "agent: GPUMEM_AGENT_LIBRARY=%s: there is no such file: "
			        "name " LIBRARY,
			        named);
		return NULL;
	}
	Dl_info info;
	char *found = NULL;
	if (dladdr((const void *)(uintptr_t)gm_inject_library, &info) && info.dli_fname)
		found = beside(info.dli_fname);
	if (!found)
		found = beside("/proc/self/exe");
	if (!found)
		return gm_error_create(GM_TARGET,
		        "agent: " LIBRARY
		        " is not beside this program: install gpumem whole, or set "
		        "GPUMEM_AGENT_LIBRARY");
	*ret_path = found;
	return NULL;
}
