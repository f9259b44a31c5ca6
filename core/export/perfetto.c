/* Chrome's trace event format (JSON), which ui.perfetto.dev and chrome://tracing read: counters,
 * slices for steps and phases, and slices for the largest blocks. */
#include <inttypes.h>

#include "export/export.h"
#include "export/perfetto_blocks.h"
#include "export/text.h"

enum { STEPS_TRACK = 1, PHASES_TRACK = 2 };

static double microseconds(const struct gm_log *log, uint32_t event)
{
	struct gm_event one;
	gm_log_event(log, event, &one);
	return (double)one.time_ns / 1000;
}

static void put_slice(FILE *out, const char *name, int track, double from, double to)
{
	fprintf(out,
	        ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
	        name, track, from, to > from ? to - from : 0);
}

static void put_track_name(FILE *out, int track, const char *name)
{
	fprintf(out,
	        ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":"
	        "\"%s\"}}",
	        track, name);
}

/* Steps and phases are ranges of events: a slice goes from the first event to the first of the next
 * range. */
static void put_runs(const struct gm_model *model, FILE *out)
{
	const struct gm_log *log = gm_model_log(model);
	size_t count = gm_model_run_count(model);
	put_track_name(out, STEPS_TRACK, "steps");
	put_track_name(out, PHASES_TRACK, "phases");
	uint32_t step = 0;
	double step_from = 0;
	for (size_t i = 0; i < count; i++) {
		struct gm_model_run run = gm_model_run(model, i);
		double from = microseconds(log, run.first);
		double to = microseconds(log, i + 1 < count ? run.end : run.end - 1);
		char name[24];
		put_slice(out, gm_phase_name(run.phase), PHASES_TRACK, from, to);
		if (run.step != step) {
			step = run.step;
			step_from = from;
		}
		bool last = i + 1 == count || gm_model_run(model, i + 1).step != step;
		snprintf(name, sizeof(name), "step %u", step);
		if (step && last)
			put_slice(out, name, STEPS_TRACK, step_from, to);
	}
}

struct gm_error *gm_export_perfetto(struct gm_model *model, FILE *out)
{
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	      "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":",
	        out);
	gm_export_json_string(out, gm_log_source(gm_model_log(model)));
	fputs("}}", out);
	put_runs(model, out);
	for (size_t i = 0; i < gm_model_device_count(model); i++) {
		struct gm_state_walk walk = gm_state_walk_begin(model, i);
		char name[32];
		gm_export_device_name(gm_model_device(model, i), name);
		while (gm_state_walk_next(&walk))
			fprintf(out,
			        ",\n{\"ph\":\"C\",\"name\":\"%s\",\"pid\":1,\"ts\":%.3f,\"args\":{"
			        "\"allocated\":%" PRIu64 ",\"cached\":%" PRIu64 "}}",
			        name, (double)walk.event.time_ns / 1000, walk.usage.allocated,
			        walk.usage.reserved > walk.usage.allocated
			                ? walk.usage.reserved - walk.usage.allocated
			                : 0);
	}
	struct gm_perfetto_left_out left_out;
	struct gm_error *error = gm_perfetto_put_blocks(model, out, &left_out);
	fprintf(out, "\n],\"otherData\":{\"blocks_left_out\":\"%" PRIu64 "\"", left_out.blocks);
	fprintf(out, ",\"bytes_left_out\":\"%" PRIu64 "\"}}\n", left_out.bytes);
	return error;
}
