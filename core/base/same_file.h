/* Whether two names lead to one file. */
#ifndef GM_BASE_SAME_FILE_H
#define GM_BASE_SAME_FILE_H

#include <stdbool.h>

/* Links are followed. NULL, and what cannot be examined, is no file. */
bool gm_same_file(const char *path, const char *other);

#endif
