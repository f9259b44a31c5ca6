#include "record/event.h"
#include "record/stacks.h"
#include "record/steps.h"
#include "record/watch.h"

#include <time.h>

#include "base/cleanup.h"

enum { FLUSH_EVERY = 64 }; /* events; a flush is one write() */

uint64_t gm_record_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct gm_event gm_record_new_event(struct gm_recorder *recorder, struct gm_moment *moment,
        enum gm_action action, uint8_t device_type, int16_t device)
{
	gm_record_stacks(recorder, moment);
	return (struct gm_event){
	        .action = (uint8_t)action,
	        .device_type = device_type,
	        .device = device,
	        .flags = moment->flags,
	        .thread = (uint64_t)moment->thread,
	        .time_ns = moment->time_ns,
	        .allocated = UINT64_MAX,
	        .reserved = UINT64_MAX,
	        .python_stack = moment->python_stack,
	        .native_stack = moment->native_stack,
	};
}

uint64_t gm_record_event(struct gm_recorder *recorder, const struct gm_event *event)
{
	uint64_t number = gm_log_writer_event(recorder->writer, event);
	recorder->event_count = number + 1;
	if (number % FLUSH_EVERY == FLUSH_EVERY - 1) {
		/* If a debugger is killed, it loses at most these; the writer remembers an error.
		 * */
		_cleanup_error_ struct gm_error *error = gm_log_writer_flush(recorder->writer);
	}
	gm_record_steps_feed(recorder, event);
	if (recorder->watches.list.count > 0 && !(event->flags & GM_EVENT_PREEXISTING))
		gm_record_watches_judge(recorder, event, number);
	if (recorder->stop_after && recorder->event_count >= recorder->stop_after) {
		recorder->stop_after = 0;
		recorder->stop_due = true;
	}
	return number;
}
