/* Holes in the recording. Internal to core/record. */
#ifndef GM_RECORD_GAP_H
#define GM_RECORD_GAP_H

#include "record/recorder.h"

void gm_record_gap(struct gm_recorder *recorder, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

#endif
