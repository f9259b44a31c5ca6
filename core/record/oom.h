/* A device runs out of memory. Internal to core/record. */
#ifndef GM_RECORD_OOM_H
#define GM_RECORD_OOM_H

#include "record/recorder.h"

/* True: a CUDA device's. */
bool gm_record_oom(struct gm_recorder *recorder, struct gm_moment *moment);

#endif
