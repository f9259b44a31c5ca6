#include <inttypes.h>

#include "base/put.h"
#include "render/answers.h"
#include "render/names.h"
#include "render/tensor.h"
#include "render/text.h"
#include "ask/recording/place.h"

/* Written one by one, not through a table: there may be millions. */
struct gm_error *gm_render_events_text(const struct gm_model *model, uint32_t from, uint32_t to,
        bool stacks, const struct gm_style *style, FILE *out)
{
	const struct gm_log *log = gm_model_log(model);
	uint64_t count = gm_log_event_count(log);
	char number[16];
	int width = snprintf(number, sizeof(number), "#%" PRIu64, count ? count - 1 : 0);
	for (uint64_t n = from; n <= to && n < count; n++) {
		struct gm_event event;
		gm_log_event(log, n, &event);
		char size[GM_SIZE_TEXT], device[GM_SIZE_TEXT], step[24] = "";
		snprintf(number, sizeof(number), "#%" PRIu64, n);
		const char *action = gm_action_name((enum gm_action)event.action);
		uint32_t in_step = gm_model_step(model, n);
		if (in_step)
			snprintf(step, sizeof(step), "step %u", in_step);
		gm_put(out, "%*s  %-14s  0x%012" PRIx64 "  %12s  %-6s  %-7s  %-9s", width, number,
		        action ? action : "unknown", event.address, gm_text_size(event.size, size),
		        gm_text_device(event.device_type, event.device, device), step,
		        gm_phase_name(gm_model_phase(model, n)));
		struct gm_frame_place place;
		if (gm_place_site(log, event.python_stack, &place))
			gm_put(out, "  %s:%u %s", gm_place_base_name(place.file), place.line,
			        place.function);
		struct gm_native_place native;
		if (gm_place_native_site(log, &event, &native))
			gm_put(out, "  %s%s%s", native.function ? native.function : "",
			        native.function ? " in " : "", native.object);
		char tensor[GM_TENSOR_TEXT];
		if (event.tensor)
			gm_put(out, "  %s", gm_text_tensor(log, event.tensor, tensor));
		char named[GM_NAMES_TEXT] = "";
		const uint32_t block = gm_model_event_block(model, n);
		if (block != GM_NO_BLOCK && *gm_text_names(model, block, named))
			gm_put(out, "  %s", named);
		const char *names[8];
		size_t ranges = gm_model_ranges(model, n, names, 8);
		for (size_t i = 0; i < ranges; i++)
			gm_put(out, "%s%s", i ? " > " : "  [", names[i]);
		if (ranges)
			fputc(']', out);
		const char *metadata = gm_model_metadata(model, n);
		if (metadata)
			gm_put(out, "  {%s}", metadata);
		if (event.flags & GM_EVENT_BORROWED)
			fputs("  (the waiting caller's stack)", out);
		struct gm_forward_frame forward;
		if (gm_place_forward(model, (uint32_t)n, &forward))
			gm_put(out, "  (backward of %s:%u %s)", gm_place_base_name(forward.file),
			        forward.line, forward.function);
		if (event.flags & GM_EVENT_PREEXISTING)
			fputs("  (alive when recording began)", out);
		fputc('\n', out);
		if (stacks)
			gm_render_event_stacks(log, &event, out);
		if (ferror(out))
			break;
	}
	return NULL;
}
