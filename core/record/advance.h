/* Stops that need no single step. Internal to core/record. */
#ifndef GM_RECORD_ADVANCE_H
#define GM_RECORD_ADVANCE_H

#include "record/recorder.h"

void gm_record_note_instruction(struct gm_recorder *recorder, size_t site);

#endif
