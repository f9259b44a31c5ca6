#include "cli/sibling_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sibling_path.h"
#include "base/cleanup.h"

struct gm_error *gm_library_sibling_path(
        const char *library, const char *variable, const char *what, char **ret)
{
	const char *named = getenv(variable);
	if (named && *named) {
		*ret = realpath(named, NULL);
		return *ret ? NULL
		            : gm_error_create(GM_TARGET, "%s: %s=%s: no such file: name %s", what,
		                      variable, named, library);
	}
	*ret = gm_installed_path(library);
	return *ret ? NULL
	            : gm_error_create(GM_TARGET,
	                      "%s: %s is not next to this program: install all of gpumem, or set "
	                      "%s",
	                      what, library, variable);
}
