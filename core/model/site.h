/* The site of an allocation: the innermost frame of the program's own code on a recorded stack. */
#ifndef GM_MODEL_SITE_H
#define GM_MODEL_SITE_H

#include "log/log.h"

/* The site's index in the Python stack, innermost 0; 0 as well where all frames are libraries' or
 * there are none. The program's own __torch_function__ and __torch_dispatch__ are passed over: the
 * site is the line whose operator they were called for. */
size_t gm_site_index(const struct gm_log *log, uint32_t stack);

#endif
