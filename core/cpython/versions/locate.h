/* Where in a process its Python is, and of which version. */
#ifndef GM_CPYTHON_LOCATE_H
#define GM_CPYTHON_LOCATE_H

#include <stdbool.h>

/* "libpython3.10.so.1.0" -> 0x030a0000; 0 where a name tells nothing. */
unsigned long gm_python_version_of_name(const char *name, bool *ret_free_threaded);

#endif
