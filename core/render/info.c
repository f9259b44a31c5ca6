#include <inttypes.h>

#include "base/cleanup.h"

#include "base/put.h"
#include "render/answers.h"
#include "render/json.h"
#include "render/say.h"
#include "render/text.h"

static const char *device_kind(const struct gm_model_device *device)
{
	const char *name = gm_device_type_name(device->type);
	if (device->type == GM_LOG_DEVICE_EXTERNAL)
		return "beside PyTorch, cuda";
	if (device->type == GM_LOG_DEVICE_PINNED)
		return "pinned";
	return name ? name : "device";
}

char *gm_render_gap(const struct gm_gap *gap)
{
	const char *kind = gap->device ? device_kind(gap->device) : "";
	int index = gap->device ? gap->device->index : 0;
	switch (gap->kind) {
	case GM_GAP_TRACE:
		return gm_say("PyTorch's own trace, without times; the sizes of freed blocks are "
		              "computed from the requested sizes");
	case GM_GAP_TRUNCATED:
		return gm_say("the file is truncated inside a chunk at byte %" PRIu64
		              ": the rest is lost",
		        gap->counted);
	case GM_GAP_FREES:
		return gm_say("%s:%d: %" PRIu64 " blocks (%" PRIu64
		              " bytes) were freed whose allocation is not in the recording",
		        kind, index, gap->counted, gap->bytes);
	case GM_GAP_ALLOCATED:
		return gm_say("%s:%d: the allocator counts %" PRIu64
		              " bytes allocated, the events of the recording add up to %" PRIu64,
		        kind, index, gap->counted, gap->bytes);
	case GM_GAP_RESERVED:
		return gm_say("%s:%d: the allocator counts %" PRIu64
		              " bytes reserved, the events of the recording add up to %" PRIu64,
		        kind, index, gap->counted, gap->bytes);
	default:
		return gm_say("%s", gap->text);
	}
}

static void put_bytes(FILE *out, const char *what, uint64_t bytes)
{
	char size[GM_SIZE_TEXT], exact[GM_SIZE_GROUPED];
	gm_put(out, "    %-16s %12s  (%s bytes)\n", what, gm_text_size(bytes, size),
	        gm_text_grouped(bytes, exact));
}

static void put_device(
        FILE *out, const struct gm_model *model, const struct gm_model_device *device)
{
	char name[GM_SIZE_TEXT];
	gm_put(out, "  %s: %" PRIu64 " event%s\n",
	        gm_text_device(device->type, device->index, name), device->events,
	        gm_text_s(device->events));
	put_bytes(out, "allocated", device->now.allocated);
	put_bytes(out, "reserved", device->now.reserved);
	put_bytes(out, "peak allocated", device->peak.allocated);
	put_bytes(out, "peak requested", device->peak.requested);
	put_bytes(out, "peak reserved", device->peak.reserved);
	if (device->peak_event != GM_NO_EVENT) {
		gm_put(out, "    the peak is at event %u", device->peak_event);
		uint32_t step = gm_model_step(model, device->peak_event);
		if (step)
			gm_put(out, ", in step %u", step);
		gm_put(out, " (%s)\n", gm_phase_name(gm_model_phase(model, device->peak_event)));
	}
	if (device->ooms)
		gm_put(out, "    out of memory    %12" PRIu64 " times\n", device->ooms);
}

/* The launches that the simulated device computed and did not compute. Launches that are not
 * counted are from an older recorder. */
static void put_simulated(FILE *out, const struct gm_info *info)
{
	uint64_t without = info->kernels_not_computed;
	if (!info->kernels_launched && !without)
		return;
	fputs("  simulated device: ", out);
	if (info->kernels_launched >= without)
		gm_put(out, "%" PRIu64 " kernels computed, ", info->kernels_launched - without);
	gm_put(out, "%" PRIu64 " not", without);
	if (info->library_calls_not_computed)
		gm_put(out, ", %" PRIu64 " library calls not", info->library_calls_not_computed);
	fputs(without || info->library_calls_not_computed
	                ? ": the program's values are not real results\n"
	                : "\n",
	        out);
	if (info->bytes_read_back)
		gm_put(out,
		        "    %" PRIu64 " bytes that were never computed were read back by the "
		        "program\n",
		        info->bytes_read_back);
}

static void put_settings(FILE *out, const struct gm_log *log)
{
	size_t count = gm_log_setting_count(log);
	for (size_t i = 0; i < count; i++) {
		const char *name, *value;
		gm_log_setting_at(log, i, &name, &value);
		gm_put(out, "%s%s=%s", i ? " " : "  recorded with ", name, value);
	}
	if (count)
		fputs("\n", out);
}

struct gm_error *gm_render_info_text(
        const struct gm_info *info, const struct gm_style *style, FILE *out)
{
	const struct gm_log *log = gm_model_log(info->model);
	gm_put(out, "%s", gm_log_path(log));
	if (gm_log_source(log)[0])
		gm_put(out, ": %s", gm_log_source(log));
	if (gm_log_pid(log))
		gm_put(out, " (process %" PRIu64 ")", gm_log_pid(log));
	gm_put(out, "\n  %" PRIu64 " event%s, %u step%s", gm_log_event_count(log),
	        gm_text_s(gm_log_event_count(log)), gm_model_step_count(info->model),
	        gm_text_s(gm_model_step_count(info->model)));
	struct gm_step_loop loop;
	struct gm_log_code code;
	if (gm_model_step_count(info->model) && gm_model_step_loop(info->model, &loop) &&
	        gm_log_code(log, loop.code, &code))
		gm_put(out, " (the loop at %s:%u)", gm_text_path(gm_log_string(log, code.file)),
		        loop.line);
	else if (gm_model_steps_marked(info->model))
		fputs(" (as the program marks them)", out);
	fputs("\n", out);
	for (size_t i = 0; i < gm_model_device_count(info->model); i++)
		put_device(out, info->model, gm_model_device(info->model, i));
	put_simulated(out, info);
	put_settings(out, log);
	if (!info->closed)
		fputs("  the recording is not closed: it still runs, or the recorder was killed\n",
		        out);
	fputs(info->complete      ? "  complete: no gaps are known\n"
	        : info->gap_count ? "  not complete:\n"
	                          : "  not complete; no gaps are known so far\n",
	        out);
	for (size_t i = 0; i < info->gap_count; i++) {
		_cleanup_free_ char *gap = gm_render_gap(&info->gaps[i]);
		gm_put(out, "    %s\n", gap ? gap : "");
	}
	return NULL;
}

static json_t *device_json(const struct gm_model *model, const struct gm_model_device *device)
{
	json_t *value = json_object();
	json_object_set_new(value, "device", json_integer(device->index));
	json_object_set_new(value, "device_type", json_string(gm_json_device_type(device->type)));
	json_object_set_new(value, "events", json_integer((json_int_t)device->events));
	json_object_set_new(value, "allocated", json_integer((json_int_t)device->now.allocated));
	json_object_set_new(value, "active", json_integer((json_int_t)device->now.active));
	json_object_set_new(value, "requested", json_integer((json_int_t)device->now.requested));
	json_object_set_new(value, "reserved", json_integer((json_int_t)device->now.reserved));
	json_object_set_new(
	        value, "peak_allocated", json_integer((json_int_t)device->peak.allocated));
	json_object_set_new(
	        value, "peak_requested", json_integer((json_int_t)device->peak.requested));
	json_object_set_new(
	        value, "peak_reserved", json_integer((json_int_t)device->peak.reserved));
	json_object_set_new(
	        value, "reported_allocated", gm_json_bytes_or_null(device->reported_allocated));
	json_object_set_new(
	        value, "reported_reserved", gm_json_bytes_or_null(device->reported_reserved));
	json_object_set_new(value, "peak_event", gm_json_event_or_null(device->peak_event));
	json_object_set_new(value, "ooms", json_integer((json_int_t)device->ooms));
	return value;
}

struct gm_error *gm_render_info_json(const struct gm_info *info, FILE *out)
{
	const struct gm_log *log = gm_model_log(info->model);
	json_t *devices = json_array(), *gaps = json_array(), *settings = json_object(),
	       *value = json_object();
	for (size_t i = 0; i < gm_model_device_count(info->model); i++)
		json_array_append_new(
		        devices, device_json(info->model, gm_model_device(info->model, i)));
	for (size_t i = 0; i < info->gap_count; i++)
		json_array_append_new(gaps, gm_json_take(gm_render_gap(&info->gaps[i])));
	json_object_set_new(value, "source", gm_json_string(gm_log_source(log)));
	json_object_set_new(value, "pid", json_integer((json_int_t)gm_log_pid(log)));
	json_object_set_new(value, "events", json_integer((json_int_t)gm_log_event_count(log)));
	json_object_set_new(value, "devices", devices);
	json_object_set_new(value, "steps", json_integer(gm_model_step_count(info->model)));
	json_object_set_new(value, "complete", json_boolean(info->complete));
	json_object_set_new(value, "closed", json_boolean(info->closed));
	json_object_set_new(
	        value, "kernels_launched", json_integer((json_int_t)info->kernels_launched));
	json_object_set_new(value, "kernels_not_computed",
	        json_integer((json_int_t)info->kernels_not_computed));
	json_object_set_new(value, "library_calls_not_computed",
	        json_integer((json_int_t)info->library_calls_not_computed));
	json_object_set_new(
	        value, "bytes_read_back", json_integer((json_int_t)info->bytes_read_back));
	for (size_t i = 0; i < gm_log_setting_count(log); i++) {
		const char *name, *text;
		gm_log_setting_at(log, i, &name, &text);
		json_object_set_new(settings, name, gm_json_string(text));
	}
	json_object_set_new(value, "gaps", gaps);
	json_object_set_new(value, "settings", settings);
	return gm_json_write(value, true, out);
}
