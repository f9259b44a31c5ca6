/* `gpumem replay`: a recording's requests, made again of PyTorch's allocator, under other
 * settings. */
#include "ask/replay.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "render/replay.h"

extern const struct gm_command gm_command_replay;

enum { KEY_CONF = 0x1101, KEY_SIM, KEY_PYTHON, KEY_DEVICE };

static const struct argp_option option_table[] = {
        {"alloc-conf", KEY_CONF, "SETTINGS", 0,
                "settings, as in PYTORCH_CUDA_ALLOC_CONF; may be given several times; \"\": the "
                "defaults",
                0},
        {"sim", KEY_SIM, "PROFILE", 0, "the simulated device, or the size of its memory (24GiB)",
                0},
        {"python", KEY_PYTHON, "PYTHON", 0, "the Python that has the PyTorch (the recording's)", 0},
        {"device", KEY_DEVICE, "N", 0, "the recording's device (the first with events)", 0},
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct gm_replay_options *options = input;
	uint64_t number = 0;
	switch (key) {
	case KEY_CONF:
		if (options->count == GM_REPLAY_SETTINGS_MAX)
			return gm_error_create(GM_USAGE, "--alloc-conf: too many: give at most 64");
		options->settings[options->count++] = argument;
		return NULL;
	case KEY_SIM:
		options->profile = argument;
		return NULL;
	case KEY_PYTHON:
		options->python = argument;
		return NULL;
	default:
		gm_try(gm_error_prefix(gm_parse_number(argument, 0, 127, &number), "--device"));
		options->device = (int)number;
		return NULL;
	}
}

static void show(void *data, size_t done, size_t count)
{
	gm_progress_show(data, GM_PROGRESS_REPLAYING, done, count);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_progress_line line = gm_progress_begin(err);
	struct gm_replay_options options = {.device = -1, .progress = show, .data = &line};
	struct gm_replay replay;
	gm_try(gm_arguments_parse(&gm_command_replay, argc, argv, option_table, handle, &options, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_arguments_take_file(&arguments, context, 0));
	struct gm_error *error = gm_ask_replay(context, &options, &replay);
	gm_progress_end(&line);
	if (error)
		return error;
	if (arguments.json)
		error = gm_render_replay_json(&replay, out);
	else
		gm_render_replay_text(&replay, out);
	*ret_status = replay.none_refused ? 0 : GM_NEGATIVE;
	gm_replay_deinit(&replay);
	return error;
}

const struct gm_command gm_command_replay = {
        .name = "replay",
        .summary = "replays a recording's requests with other settings of PyTorch's own allocator",
        .usage = "FILE [--alloc-conf=SETTINGS]… [--sim=PROFILE] [--python=PYTHON] [--device=N] "
                 "[--json]\n"
                 "Repeats the allocations and frees of a recording in order, with PyTorch's own "
                 "caching allocator on a\n"
                 "simulated device, once for each setting. Shows how much it reserves, whether it "
                 "runs out of memory, and\n"
                 "whether requests that failed in the run succeed. Nothing is computed. Without "
                 "--alloc-conf it tries the\n"
                 "usual settings. --sim selects another device, or another amount of memory.\n"
                 "Exit status: 0 with at least one of the settings no request fails; 1 with none.\n"
                 "\n"
                 " Example: gpumem replay run.gpumem --alloc-conf expandable_segments:True\n"
                 " Example: gpumem replay run.gpumem --sim 24GiB",
        .effect = GM_EFFECT_PROGRAM,
        .shell = true,
        .run = run,
};
