#include "ask/steps.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/steps.h"

extern const struct gm_command gm_command_steps;

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(&gm_command_steps, argc, argv, options,
	        gm_target_option, context, 1, false, out, &arguments);
	bool target;
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	struct gm_steps_answer answer;
	if (!error)
		error = gm_ask_steps(context, 0, &answer);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_steps_json(&answer, out)
	                       : gm_render_steps_text(&answer, &style, out);
	gm_steps_answer_deinit(&answer);
	return error;
}

const struct gm_command gm_command_steps = {
        .name = "steps",
        .summary = "what each pass of the training loop allocates, its peak, and what it keeps",
        .usage = "[FILE | --pid PID | --core CORE] [--json]\n"
                 "One line for each pass of the training loop, which is found from the recorded "
                 "stacks: "
                 "what\n"
                 "was allocated at its start, its peak and its end, what it allocated in sum, and "
                 "what of "
                 "that\n"
                 "it kept.\n\n"
                 "Example: gpumem steps run.gpumem",
        .shell = true,
        .gdb = true,
        .run = run,
};
