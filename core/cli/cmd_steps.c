#include "ask/blocks.h"
#include "ask/steps.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/steps.h"

extern const struct gm_command gm_command_steps;

enum { KEY_EXPLAIN = 0x1001, KEY_DEVICE };

struct options {
	struct gm_context *context;
	bool explain;
	int device; /* -1: the main one */
};

static const struct argp_option option_table[] = {
        {"explain", KEY_EXPLAIN, NULL, 0, "shows the loops, and how gpumem found them", 0},
        GM_DEVICE_OPTION(KEY_DEVICE),
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	switch (key) {
	case KEY_EXPLAIN:
		options->explain = true;
		return NULL;
	case KEY_DEVICE:
		return gm_parse_device(argument, &options->device);
	default:
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .device = -1};
	struct gm_error *error = gm_arguments_parse(&gm_command_steps, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	bool target;
	size_t device;
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	struct gm_steps_answer answer;
	if (!error)
		error = gm_ask_device(context, options.device, &device);
	if (!error)
		error = gm_ask_steps_of(context, device, &answer);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_steps_json(&answer, out)
	                       : gm_render_steps_text(&answer, options.explain, &style, out);
	gm_steps_answer_deinit(&answer);
	return error;
}

const struct gm_command gm_command_steps = {
        .name = "steps",
        .summary =
                "what each iteration of the training loop allocates, its peak, and what it keeps",
        .usage = "[FILE | --pid PID | --core CORE] [--loop FILE:LINE] [--explain] [--device N] "
                 "[--json]\n"
                 "Shows one line for each iteration of the training loop: the bytes allocated at "
                 "its start, its\n"
                 "peak and its end, the total that it allocated, and how much of that it kept. "
                 "gpumem finds the\n"
                 "loop from the recorded stacks: a step is an iteration around the call of a "
                 "module, backward and\n"
                 "the optimizer. --explain shows these loops and how they were found; --loop "
                 "chooses another one. If\n"
                 "there are more than 60 lines, it shows only the first, the last, and those with "
                 "a higher peak than\n"
                 "the ones shown before; --json has all.\n"
                 "\n"
                 "Example: gpumem steps run.gpumem",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
