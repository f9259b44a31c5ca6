/* Why /proc shows no memory of a process that is there: three states of which only one can be
 * mended. */
#ifndef GM_IMAGE_NO_MEMORY_H
#define GM_IMAGE_NO_MEMORY_H

#include <sys/types.h>

#include "base/error.h"

/* GM_TARGET, with what to do. */
struct gm_error *gm_no_memory_error(pid_t pid);

#endif
