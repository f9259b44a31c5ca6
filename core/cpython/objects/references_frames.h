/* What frames and generators refer to. */
#ifndef GM_CPYTHON_REFERENCES_FRAMES_H
#define GM_CPYTHON_REFERENCES_FRAMES_H

#include "cpython/objects/emit.h"

bool gm_py_visit_frame_object(struct gm_visit *visit, uint64_t object);
bool gm_py_visit_generator(struct gm_visit *visit, uint64_t object);

#endif
