/* Where gpumem's own libraries are: next to this program or library, in a build tree or an
 * installed prefix. */
#ifndef GM_CLI_SIBLING_LIBRARY_H
#define GM_CLI_SIBLING_LIBRARY_H

#include "base/error.h"

/* The path of `library`, or of what the variable names; the caller frees it. `what` begins the
 * error's message. */
struct gm_error *gm_library_sibling_path(
        const char *library, const char *variable, const char *what, char **ret);

#endif
