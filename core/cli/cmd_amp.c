#include "ask/amp.h"
#include "ask/target/amp_now.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/amp.h"
#include "render/amp_now.h"

extern const struct gm_command gm_command_amp;

static const struct argp_option option_table[] = {
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	return gm_target_option(input, key, argument);
}

/* For a process or a core */
static struct gm_error *run_now(struct gm_context *context, bool json, FILE *out)
{
	_cleanup_free_ struct gm_amp_now *now = NULL;
	gm_try(gm_ask_amp_now(context, &now));
	return json ? gm_render_amp_now_json(now, out) : gm_render_amp_now_text(now, out);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(&gm_command_amp, argc, argv, option_table,
	        handle, context, 1, false, out, &arguments);
	bool target;
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	if (!error && target)
		return run_now(context, arguments.json, out);
	struct gm_amp amp;
	if (!error)
		error = gm_ask_amp(context, &amp);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_amp_json(&amp, out)
	                       : gm_render_amp_text(&amp, &style, out);
	gm_amp_deinit(&amp);
	return error;
}

const struct gm_command gm_command_amp = {
        .name = "amp",
        .summary = "what mixed precision did: skipped steps, the scale, copies of parameters, "
                   "gradients",
        .usage = "[FILE | --pid PID | --core CORE] [--loop FILE:LINE] [--json]\n"
                 "Shows for each step whether the optimizer stepped or the GradScaler skipped it "
                 "because a gradient was inf\n"
                 "or NaN, how that is known, and the scale. Then: when the optimizer's state was "
                 "made; autocast's copies of\n"
                 "parameters and what kept them; half-precision gradients that became float32; the "
                 "statement that released\n"
                 "the gradients; the bytes at the peak, compared with an estimate for float32. For "
                 "a process or a core it shows the\n"
                 "scaler's settings and values, and what the optimizers hold now. For DeepSpeed's "
                 "own loss scaler it shows how many\n"
                 "steps were skipped, and which one overflowed last.\n"
                 "\n"
                 "Example: gpumem amp run.gpumem",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
