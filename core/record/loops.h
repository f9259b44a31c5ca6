/* How far loops have come. Internal to core/record. */
#ifndef GM_RECORD_LOOPS_H
#define GM_RECORD_LOOPS_H

#include "record/recorder.h"

/* Writes which loops of recorder->frames are in another pass. */
void gm_record_loops(struct gm_recorder *recorder, size_t count);

#endif
