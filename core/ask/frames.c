#include "ask/frames.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "image/image.h"

static struct gm_error *read_frames(struct gm_context *context, struct gm_frames *frames)
{
	struct gm_python *python;
	gm_try(gm_context_python(context, &python));
	frames->frames = calloc(GM_PYTHON_FRAMES_MAX + 1, sizeof(*frames->frames));
	if (!frames->frames)
		return &gm_error_no_memory;
	frames->thread = frames->selected = gm_context_thread(context);
	frames->count =
	        gm_python_stack(python, frames->thread, frames->frames, GM_PYTHON_FRAMES_MAX + 1);
	if (!frames->count) {
		frames->thread = (int)gm_image_main_thread(context->image);
		frames->count = gm_python_stack(
		        python, frames->thread, frames->frames, GM_PYTHON_FRAMES_MAX + 1);
	}
	frames->cut = frames->count > GM_PYTHON_FRAMES_MAX;
	frames->count -= frames->cut;
	if (!frames->count)
		return gm_error_create(GM_TARGET,
		        "thread %d runs no Python code now, nor does the main thread: choose "
		        "another thread",
		        frames->selected);
	return NULL;
}

struct gm_error *gm_ask_frames(struct gm_context *context, struct gm_frames *ret_frames)
{
	struct gm_frames frames = {0};
	gm_try(gm_context_pause(context, GM_READS_LITTLE));
	struct gm_error *error = read_frames(context, &frames);
	gm_context_resume(context, &frames.pause);
	if (!error)
		error = gm_context_check_there(context);
	if (error)
		gm_frames_deinit(&frames);
	else
		*ret_frames = frames;
	return error;
}

void gm_frames_deinit(struct gm_frames *frames)
{
	free(frames->frames);
	*frames = (struct gm_frames){0};
}

struct gm_error *gm_frames_check(const struct gm_frames *frames, uint64_t number)
{
	if (number < frames->count)
		return NULL;
	if (frames->count == 1)
		return gm_error_create(GM_USAGE,
		        "frame %ju: thread %d has one Python frame, 0: give that",
		        (uintmax_t)number, frames->thread);
	return gm_error_create(GM_USAGE,
	        "frame %ju: thread %d has the Python frames 0 to %zu: give one of them",
	        (uintmax_t)number, frames->thread, frames->count - 1);
}
