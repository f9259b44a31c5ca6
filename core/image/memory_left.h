/* How much memory there is to spare. */
#ifndef GM_IMAGE_MEMORY_LEFT_H
#define GM_IMAGE_MEMORY_LEFT_H

#include <stdint.h>

/* Bytes that this process may take before others have to make room: the machine's MemAvailable, and
 * the limits of the control groups (version 2) that it is in. 0: not known. */
uint64_t gm_memory_left(void);

#endif
