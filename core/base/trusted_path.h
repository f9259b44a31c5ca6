/* Who could have put a file there that we are about to run? */
#ifndef GM_BASE_TRUSTED_PATH_H
#define GM_BASE_TRUSTED_PATH_H

#include <stdbool.h>

/* Is each folder on the way to the file, as it is named and where its links lead, and the file
 * itself, ours or root's, and can nobody else write to it? Others may add files to a folder with
 * the sticky bit, such as /tmp, but not replace ours. The group counts as others, unless it is our
 * own or root's. False also where it is not there. */
bool gm_path_is_trusted(const char *path);

#endif
