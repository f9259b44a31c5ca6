/* What was there before the recording. Internal to core/record. */
#ifndef GM_RECORD_EXISTING_H
#define GM_RECORD_EXISTING_H

#include "record/recorder.h"

void gm_record_existing(struct gm_recorder *recorder);

#endif
