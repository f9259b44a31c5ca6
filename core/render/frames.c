/* The Python frames of a thread, as text and JSON. */
#include "render/frames.h"

#include <inttypes.h>

#include "base/put.h"
#include "base/size.h"
#include "render/json.h"
#include "render/pause.h"
#include "render/source_line.h"

void gm_put_python_frame(const struct gm_frames *frames, uint64_t number, FILE *out)
{
	const struct gm_python_frame *frame = &frames->frames[number];
	char line[GM_SOURCE_LINE];
	gm_put(out, "%4" PRIu64 "  %s:%u in %s\n", number, frame->code->file, frame->line,
	        frame->code->name);
	if (gm_source_line(frame->code->file, frame->line, line))
		gm_put(out, "        %s\n", line);
}

bool gm_put_other_thread(const struct gm_frames *frames, FILE *out)
{
	if (frames->thread == frames->selected)
		return false;
	gm_put(out, "Thread %d runs no Python. The main thread, %d:\n", frames->selected,
	        frames->thread);
	return true;
}

json_t *gm_json_python_frame(const struct gm_frames *frames, uint64_t number)
{
	const struct gm_python_frame *frame = &frames->frames[number];
	json_t *value = gm_json_place(frame->code->file, frame->line, frame->code->name);
	json_object_set_new(value, "frame", json_integer((json_int_t)number));
	json_object_set_new(value, "evaluation", json_integer(frame->evaluation));
	json_object_set_new(value, "evaluation_stack",
	        frame->evaluation_stack ? gm_json_address(frame->evaluation_stack) : json_null());
	return value;
}

void gm_render_frames_text(const struct gm_frames *frames, const uint64_t *one, FILE *out)
{
	bool other = gm_put_other_thread(frames, out);
	if (!other && !one)
		gm_put(out, "Thread %d, innermost frame first:\n", frames->thread);
	for (size_t i = one ? *one : 0; i < (one ? *one + 1 : frames->count); i++)
		gm_put_python_frame(frames, i, out);
	if (frames->cut && !one)
		gm_put(out, "There are more frames: the first %zu are shown.\n", frames->count);
	gm_put_pause(&frames->pause, out);
}

struct gm_error *gm_render_frames_json(
        const struct gm_frames *frames, const uint64_t *one, FILE *out)
{
	json_t *value = json_object(), *list = json_array();
	for (size_t i = one ? *one : 0; i < (one ? *one + 1 : frames->count); i++)
		json_array_append_new(list, gm_json_python_frame(frames, i));
	json_object_set_new(value, "thread", json_integer(frames->thread));
	json_object_set_new(value, "selected_thread", json_integer(frames->selected));
	json_object_set_new(value, "frames", list);
	json_object_set_new(value, "complete", json_boolean(!frames->cut));
	json_object_set_new(value, "pause", gm_json_pause(&frames->pause));
	return gm_json_write(value, true, out);
}
