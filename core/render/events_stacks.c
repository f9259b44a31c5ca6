/* The stacks of an event, as text: the Python frames with their source lines, then the native ones.
 */
#include "ask/recording/place.h"
#include "base/put.h"
#include "render/answers.h"
#include "render/source_line.h"

static void put_python(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	struct gm_frame_place place;
	bool borrowed = event->flags & GM_EVENT_BORROWED;
	if (!gm_place_frame(log, event->python_stack, 0, &place)) {
		fputs("Python: no frames are recorded\n", out);
		return;
	}
	gm_put(out, "Python, innermost frame first%s:\n",
	        borrowed ? " (of the thread that waits in backward())" : "");
	for (size_t i = 0; gm_place_frame(log, event->python_stack, i, &place); i++) {
		char line[GM_SOURCE_LINE];
		gm_put(out, "%4zu  %s:%u in %s\n", i, place.file, place.line, place.function);
		if (gm_source_line(place.file, place.line, line))
			gm_put(out, "        %s\n", line);
	}
}

static void put_native(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	size_t count;
	const uint64_t *addresses = gm_log_native_stack(log, event->native_stack, &count);
	if (count == 0) {
		fputs("native: no frames are recorded\n", out);
		return;
	}
	fputs("native, innermost frame first:\n", out);
	for (size_t i = 0; i < count; i++) {
		struct gm_native_place place;
		gm_place_native(log, addresses[i], &place);
		gm_put(out, "%4zu  %s", i, place.function ? place.function : "??");
		if (place.object)
			gm_put(out, " in %s", place.object);
		if (place.file && place.line)
			gm_put(out, " at %s:%u", place.file, place.line);
		fputc('\n', out);
	}
}

void gm_render_event_stacks(const struct gm_log *log, const struct gm_event *event, FILE *out)
{
	put_python(log, event, out);
	put_native(log, event, out);
}
