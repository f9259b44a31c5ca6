#include "ask/frames.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/frames.h"

extern const struct gm_command gm_command_frames;

enum { OPTION_FRAME = 0x1001 };

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        GM_TARGET_THREAD_OPTION,
        {"frame", OPTION_FRAME, "N", 0, "this frame alone, 0: the innermost one", 0},
        {0},
};

struct input {
	struct gm_context *context;
	uint64_t frame;
	bool one;
};

static struct gm_error *take_option(void *context, int key, const char *argument)
{
	struct input *input = context;
	if (key != OPTION_FRAME)
		return gm_target_option(input->context, key, argument);
	input->one = true;
	return gm_parse_number(argument, 0, UINT64_MAX, &input->frame);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {.context = context};
	gm_try(gm_arguments_parse(&gm_command_frames, argc, argv, options, take_option, &input, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_target_take_core_only(&arguments, context, "frames", "frames are those of"));
	struct gm_frames frames;
	gm_try(gm_ask_frames(context, &frames));
	struct gm_error *error = input.one ? gm_frames_check(&frames, input.frame) : NULL;
	if (!error && arguments.json)
		error = gm_render_frames_json(&frames, input.one ? &input.frame : NULL, out);
	else if (!error)
		gm_render_frames_text(&frames, input.one ? &input.frame : NULL, out);
	gm_frames_deinit(&frames);
	return error;
}

const struct gm_command gm_command_frames = {
        .name = "frames",
        .summary = "the current Python frames of a thread, with their source lines",
        .usage = "[CORE | --pid PID | --core CORE] [--frame N] [--thread TID] [--json]\n"
                 "Reads the Python frames of the selected thread (in a shell of the main thread, "
                 "or --thread) from\n"
                 "outside; no code of the program runs. If the thread runs no Python code, as the "
                 "autograd engine's\n"
                 "threads do not, the main thread's frames are shown. Frames count from 0, the "
                 "innermost one.\n"
                 "\n"
                 " Example: gpumem frames --pid 4711",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
