/* Steps of the training loop, as events come. Internal to core/record. */
#ifndef GM_RECORD_STEPS_H
#define GM_RECORD_STEPS_H

#include "record/recorder.h"

bool gm_record_steps_begin(struct gm_recorder *recorder);
void gm_record_steps_end(struct gm_recorder *recorder);
/* The frames are those of the event's Python stack: recorder->fed_frames. */
void gm_record_steps_feed(struct gm_recorder *recorder, const struct gm_event *event);

#endif
