/* Whether the control groups of a process have the memory that the agent's start takes. */
#ifndef GM_INJECT_MEMORY_H
#define GM_INJECT_MEMORY_H

#include <sys/types.h>

#include "base/error.h"

/* GM_TARGET where one of them has too little left. */
struct gm_error *gm_inject_memory_check(pid_t pid);

#endif
