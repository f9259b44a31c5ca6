/* Facts of a recording, as structs: no JSON is made or read. */
#include "api/internal.h"
#include "ask/info.h"
#include "base/allocation.h"
#include "base/cleanup.h"
#include "cli/session.h"
#include "log/log.h"
#include "render/json.h"

static struct gm_error *get_model(
        gpumem_session *session, struct gm_context **ret_context, struct gm_model **ret_model)
{
	struct gm_context *context = gm_session_context(session);
	if (!session->source.recording)
		return gm_error_create(GM_USAGE,
		        "this session has no recording, and the question needs one: name it when "
		        "you open the session");
	gm_try(gm_context_set_log(context, session->source.recording));
	gm_try(gm_context_set_loop(context, session->source.loop));
	gm_try(gm_context_model(context, ret_model));
	*ret_context = context;
	return NULL;
}

static struct gm_error *recording_info(
        gpumem_session *session, struct gpumem_recording_info *ret_info)
{
	struct gm_context *context;
	struct gm_model *model;
	struct gm_info info;
	gm_try(get_model(session, &context, &model));
	gm_try(gm_ask_info(context, &info));
	const struct gm_log *log = gm_model_log(info.model);
	const struct gpumem_recording_info own = {
	        .events = gm_log_event_count(log),
	        .devices = gm_model_device_count(info.model),
	        .gaps = info.gap_count,
	        .process = gm_log_pid(log),
	        .steps = gm_model_step_count(info.model),
	        .complete = info.complete,
	        .closed = info.closed,
	};
	gm_info_deinit(&info);
	return gm_api_give_result(&own, sizeof(own), ret_info);
}

static struct gm_error *device_info(
        gpumem_session *session, uint64_t index, struct gpumem_device_info *ret_info)
{
	struct gm_context *context;
	struct gm_model *model;
	gm_try(get_model(session, &context, &model));
	size_t count = gm_model_device_count(model);
	if (index >= count)
		return gm_error_create(GM_USAGE, "device %ju: the recording has %zu of them",
		        (uintmax_t)index, count);
	const struct gm_model_device *device = gm_model_device(model, (size_t)index);
	const struct gpumem_device_info own = {
	        .type = gm_json_device_type(device->type),
	        .index = device->index,
	        .events = device->events,
	        .allocated = device->now.allocated,
	        .active = device->now.active,
	        .requested = device->now.requested,
	        .reserved = device->now.reserved,
	        .peak_allocated = device->peak.allocated,
	        .peak_active = device->peak.active,
	        .peak_requested = device->peak.requested,
	        .peak_reserved = device->peak.reserved,
	        .peak_event =
	                device->peak_event == GM_NO_EVENT ? GPUMEM_UNKNOWN : device->peak_event,
	        .ooms = device->ooms,
	};
	return gm_api_give_result(&own, sizeof(own), ret_info);
}

static struct gm_error *event_info(
        gpumem_session *session, uint64_t number, struct gpumem_event_info *ret_info)
{
	struct gm_context *context;
	struct gm_model *model;
	gm_try(get_model(session, &context, &model));
	const struct gm_log *log = gm_model_log(model);
	if (number >= gm_log_event_count(log))
		return gm_error_create(GM_USAGE, "event %ju: the recording has %ju of them",
		        (uintmax_t)number, (uintmax_t)gm_log_event_count(log));
	struct gm_event event;
	gm_log_event(log, number, &event);
	uint32_t block = gm_model_event_block(model, number);
	uint32_t alloc = block == GM_NO_BLOCK ? GM_NO_EVENT : gm_model_block(model, block)->alloc;
	const char *action = gm_action_name((enum gm_action)event.action);
	const struct gpumem_event_info own = {
	        .action = action ? action : "unknown",
	        .phase = gm_phase_name(gm_model_phase(model, (uint32_t)number)),
	        .device_type = gm_json_device_type(event.device_type),
	        .device = event.device,
	        .step = gm_model_step(model, (uint32_t)number),
	        .block = alloc == GM_NO_EVENT ? GPUMEM_UNKNOWN : alloc,
	        .address = event.address,
	        .bytes = event.size,
	        .requested = event.requested,
	        .stream = event.stream,
	        .thread = event.thread,
	        .time_us = event.time_ns / 1000,
	        .allocated = event.allocated,
	        .reserved = event.reserved,
	};
	return gm_api_give_result(&own, sizeof(own), ret_info);
}

/* As gm_session_ask() does: one at a time, and a result during which an allocation failed is
 * discarded. */
static void begin(void)
{
	gm_session_lock();
	gm_allocation_forget();
}

static int end(struct gm_error *error, gpumem_error **ret_error)
{
	if (gm_allocation_failed()) {
		gm_error_destroy(error);
		error = &gm_error_no_memory;
	}
	gm_session_unlock();
	return gm_api_fail(error, ret_error);
}

int gpumem_recording_info(
        gpumem_session *session, struct gpumem_recording_info *ret_info, gpumem_error **ret_error)
{
	begin();
	gpumem_session_invalidate(session);
	return end(recording_info(session, ret_info), ret_error);
}

int gpumem_device_info(gpumem_session *session, uint64_t index, struct gpumem_device_info *ret_info,
        gpumem_error **ret_error)
{
	begin();
	return end(device_info(session, index, ret_info), ret_error);
}

int gpumem_event_info(gpumem_session *session, uint64_t number, struct gpumem_event_info *ret_info,
        gpumem_error **ret_error)
{
	begin();
	return end(event_info(session, number, ret_info), ret_error);
}
