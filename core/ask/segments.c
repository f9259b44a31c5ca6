#include "ask/segments.h"

#include <inttypes.h>
#include <stdio.h>

#include "ask/recording/memory_after.h"
#include "ask/target/memory_now.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "model/model.h"

/*
 * What a recording says of the device itself: its size, and how much of it an out-of-memory error
 * found free, if PyTorch has neither got nor returned memory between that error and the moment.
 */
static void take_device(struct gm_memory *memory)
{
	const struct gm_log *log = gm_model_log(memory->model);
	struct gm_event event;
	char name[64];
	uint64_t value;
	if (gm_log_device_total(log, memory->device, &value))
		memory->total = value;
	for (uint64_t i = (uint64_t)memory->event + 1; i-- > 0;) {
		gm_log_event(log, i, &event);
		if (event.device_type != memory->device_type || event.device != memory->device)
			continue;
		if (event.action >= GM_SEGMENT_ALLOC && event.action <= GM_SEGMENT_UNMAP)
			return;
		if (event.action != GM_OOM)
			continue;
		snprintf(name, sizeof(name), "oom.%" PRIu64 ".free", i);
		if (gm_log_counter(log, name, &value))
			memory->device_free = value;
		return;
	}
}

struct gm_error *gm_ask_segments(struct gm_context *context,
        const struct gm_segments_options *options, struct gm_memory *ret_memory)
{
	if (options->target) {
		if (options->has_event || options->at_peak)
			return gm_error_create(GM_TARGET,
			        "segments: --at and --at-peak need a recording: leave "
			        "them out, or record the program");
		return gm_memory_now(context, options->device, ret_memory);
	}
	uint32_t event = options->has_event ? (uint32_t)options->event : GM_NO_EVENT;
	if (options->at_peak) {
		struct gm_model *model;
		gm_try(gm_context_model(context, &model));
		size_t device = gm_model_main_device(model);
		if (options->device >= 0)
			gm_try(gm_blocks_find_device(model, (uint64_t)options->device, &device));
		if (device != SIZE_MAX)
			event = gm_model_device(model, device)->peak_event;
		if (device != SIZE_MAX && event == GM_NO_EVENT)
			return gm_error_create(GM_TARGET,
			        "no peak: nothing was allocated on the device: leave --at-peak "
			        "out");
	}
	gm_try(gm_memory_after(context, options->device, event, ret_memory));
	take_device(ret_memory);
	return NULL;
}
