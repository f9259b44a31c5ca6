/*
 * Opens a file that somebody else named: a process in its mappings, a recording, a core. What lies
 * there may be anything: to open a FIFO waits for its other end, to open a device may do something,
 * and reading either may never end.
 */
#ifndef GM_BASE_REGULAR_FILE_H
#define GM_BASE_REGULAR_FILE_H

#include <stdio.h>

/*
 * To be read; never waits. -1 and errno: it cannot be opened; EINVAL: it is not a regular file. The
 * caller closes it.
 */
int gm_regular_file_open(const char *path);
/* The same as a stream, NULL and errno. */
FILE *gm_regular_file_stream(const char *path);
/* Of that errno, in words. */
const char *gm_regular_file_why(int os_error);

#endif
