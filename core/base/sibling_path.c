#include "base/sibling_path.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

char *gm_sibling_path(const char *file, const char *name)
{
	/* lib/gpumem is an installation's, lib a build's and a wheel's; a library's own folder
	 * comes first. */
	static const char *const folders[] = {
	        ".", "../lib", "../lib/gpumem", "../lib64", "../lib/x86_64-linux-gnu"};
	_cleanup_free_ char *real = realpath(file, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	if (!slash)
		return NULL;
	*slash = 0;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		char *path = NULL;
		if (asprintf(&path, "%s/%s/%s", real, folders[i], name) < 0)
			return NULL;
		char *found = realpath(path, NULL);
		free(path);
		if (found)
			return found;
	}
	return NULL;
}

char *gm_installed_path(const char *name)
{
	Dl_info info;
	char *found = NULL;
	if (dladdr(__extension__(void *) gm_installed_path, &info) && info.dli_fname)
		found = gm_sibling_path(info.dli_fname, name);
	return found ? found : gm_sibling_path("/proc/self/exe", name);
}
