#include "ask/events.h"
#include "ask/context.h"

#include "base/cleanup.h"

struct gm_error *gm_ask_events(
        struct gm_context *context, uint32_t from, uint32_t to, struct gm_events *ret_events)
{
	struct gm_model *model;
	gm_try(gm_context_model(context, &model));
	if (from > to)
		return gm_error_create(
		        GM_USAGE, "events: --from is greater than --to: exchange them");
	uint64_t count = gm_log_event_count(gm_model_log(model));
	if (count && from >= count)
		return gm_error_create(GM_USAGE,
		        "events: --from %u: the recording has %ju events, #0 to #%ju: give one of "
		        "them",
		        from, (uintmax_t)count, (uintmax_t)count - 1);
	*ret_events = (struct gm_events){model, from, to};
	return NULL;
}
