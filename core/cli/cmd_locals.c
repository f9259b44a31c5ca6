#include "ask/locals.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/frames.h"

extern const struct gm_command gm_command_locals;

enum { OPTION_FRAME = 0x1001, OPTION_ALL };

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        GM_TARGET_THREAD_OPTION,
        {"frame", OPTION_FRAME, "N", 0, "the Python frame, 0: the innermost one (0)", 0},
        {"all", OPTION_ALL, NULL, 0, "also modules, functions, classes and names such as __name__",
                0},
        {0},
};

struct input {
	struct gm_context *context;
	uint64_t frame;
	bool all;
};

static struct gm_error *take_option(void *context, int key, const char *argument)
{
	struct input *input = context;
	switch (key) {
	case OPTION_FRAME:
		return gm_parse_number(argument, 0, UINT64_MAX, &input->frame);
	case OPTION_ALL:
		input->all = true;
		return NULL;
	default:
		return gm_target_option(input->context, key, argument);
	}
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {.context = context};
	gm_try(gm_arguments_parse(&gm_command_locals, argc, argv, options, take_option, &input, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_target_take_core_only(&arguments, context, "locals", "variables are those of"));
	struct gm_locals locals;
	gm_try(gm_ask_locals(context, input.frame, input.all, &locals));
	struct gm_error *error = NULL;
	if (arguments.json)
		error = gm_render_locals_json(&locals, out);
	else
		gm_render_locals_text(&locals, out);
	gm_locals_deinit(&locals);
	return error;
}

const struct gm_command gm_command_locals = {
        .name = "locals",
        .summary = "the variables of a Python frame: types, values, tensors with their blocks",
        .usage = "[CORE | --pid PID | --core CORE] [--frame N] [--all] [--thread TID] [--json]\n"
                 "Reads the variables of a Python frame from outside; no code of the program runs. "
                 "For a tensor it shows\n"
                 "shape, dtype, device, bytes and address of its storage, and in gdb the block in "
                 "the recording and its\n"
                 "name; for None, numbers and strings, the value; for lists, tuples, dicts and "
                 "sets, the number of\n"
                 "items. --frame N is a frame of `gpumem frames`; in gdb it is the one that "
                 "`gpumem up` and `gpumem down`\n"
                 "selected.\n"
                 "\n"
                 " Example: gpumem locals --pid 4711 --frame 1",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
