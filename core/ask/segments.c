#include "ask/segments.h"

#include "ask/recording/memory_after.h"
#include "ask/target/memory_now.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "model/model.h"

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
		if (device != SIZE_MAX)
			event = gm_model_device(model, device)->peak_event;
	}
	return gm_memory_after(context, options->device, event, ret_memory);
}
