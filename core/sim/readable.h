/* How much of this process's own memory can be read, where its size is not known. */
#ifndef GM_SIM_READABLE_H
#define GM_SIM_READABLE_H

#include <stddef.h>

/* How many of `size` bytes at `at` can be read, up to the first that cannot. */
size_t gm_sim_readable(const void *at, size_t size);

#endif
