/* One event into the log. Internal to core/record. */
#ifndef GM_RECORD_EVENT_H
#define GM_RECORD_EVENT_H

#include "record/recorder.h"

uint64_t gm_record_now(void); /* nanoseconds since the Unix epoch */
uint64_t gm_record_event(struct gm_recorder *recorder, const struct gm_event *event);
struct gm_event gm_record_new_event(struct gm_recorder *recorder, struct gm_moment *moment,
        enum gm_action action, uint8_t device_type, int16_t device);

#endif
