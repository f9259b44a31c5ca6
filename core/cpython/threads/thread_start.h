/* What a thread was started with. */
#ifndef GM_CPYTHON_THREAD_START_H
#define GM_CPYTHON_THREAD_START_H

#include "cpython/objects/emit.h"

/* The function that a thread was started with, and its arguments. `bytes`: of the thread's state.
 */
void gm_py_visit_thread_record(struct gm_visit *visit, uint64_t state, const uint8_t *bytes);

#endif
