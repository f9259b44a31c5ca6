/* Call stacks of a stop. Internal to core/record. */
#ifndef GM_RECORD_STACKS_H
#define GM_RECORD_STACKS_H

#include "record/recorder.h"

void gm_record_stacks(struct gm_recorder *recorder, struct gm_moment *moment);
/* What is torn down at a free; 0: not seen. */
uint32_t gm_record_evidence(struct gm_recorder *recorder, struct gm_moment *moment);

#endif
