#include "ask/phases.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/phases.h"

struct options {
	struct gm_context *context;
	uint64_t step;
};

enum { KEY_STEP = 0x1001 };

extern const struct gm_command gm_command_phases;

static const struct argp_option option_table[] = {
        {"step", KEY_STEP, "N", 0, "only the phases of this step", 0},
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key != KEY_STEP)
		return gm_target_option(options->context, key, argument);
	return gm_error_prefix(gm_parse_number(argument, 1, UINT32_MAX, &options->step), "--step");
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {context, 0};
	bool target;
	struct gm_error *error = gm_arguments_parse(&gm_command_phases, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	struct gm_phases phases;
	if (!error)
		error = gm_ask_phases(context, (uint32_t)options.step, &phases);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	return arguments.json ? gm_render_phases_json(&phases, out)
	                      : gm_render_phases_text(&phases, &style, out);
}

const struct gm_command gm_command_phases = {
        .name = "phases",
        .summary = "what forward, backward, the optimizer and the other phases allocate",
        .usage = "[FILE | --pid PID | --core CORE] [--step=N] [--json]\n"
                 "Shows one line for each phase: init, data, forward, recompute, backward, "
                 "optimizer, zero_grad,\n"
                 "evaluation, prefill, decode, other. It finds phases from the recorded stacks.\n"
                 "\n"
                 "Example: gpumem phases run.gpumem --step 2",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
