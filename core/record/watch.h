/* Conditions at which the program stops, evaluated at each event that is recorded. Internal to
 * core/record. */
#ifndef GM_RECORD_WATCH_H
#define GM_RECORD_WATCH_H

#include "record/recorder.h"

/* After the event has got its step. Where a condition holds, the stop is due. */
void gm_record_watches_judge(
        struct gm_recorder *recorder, const struct gm_event *event, uint64_t number);

#endif
