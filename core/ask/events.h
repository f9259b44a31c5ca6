/* The question `events`: the events of a recording, one by one. */
#ifndef GM_ASK_EVENTS_H
#define GM_ASK_EVENTS_H

#include "ask/context.h"
#include "model/model.h"

struct gm_events {
	const struct gm_model *model; /* the context's */
	uint32_t from, to;            /* inclusive; `to` may be after the last one */
};

/* GM_USAGE: `from` is greater than `to`, or after the last event. */
struct gm_error *gm_ask_events(
        struct gm_context *context, uint32_t from, uint32_t to, struct gm_events *ret_events);

#endif
