#include "base/cleanup.h"
#include "ask/zero.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/zero.h"

extern const struct gm_command gm_command_zero;

static const struct argp_option option_table[] = {
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	return gm_target_option(input, key, argument);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_zero_now now;
	gm_try(gm_arguments_parse(&gm_command_zero, argc, argv, option_table, handle, context, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_target_take_core(&arguments, context, 0));
	gm_try(gm_target_check(context));
	if (arguments.positional_count)
		return gm_error_create(GM_USAGE,
		        "zero: '%s' is not a core dump: who owns which tensor is known of a "
		        "process or "
		        "a core only: name one with --pid PID or --core CORE",
		        arguments.positional[0]);
	gm_try(gm_ask_zero(context, &now));
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments.json ? gm_render_zero_json(&now, out)
	                                        : gm_render_zero_text(&now, &style, out);
	gm_zero_deinit(&now);
	return error;
}

const struct gm_command gm_command_zero = {
        .name = "zero",
        .summary = "how the optimizer's state is sharded over ranks, and the bytes beside the "
                   "ideal",
        .usage = "[CORE | --pid PID | --core CORE] [--json]\n"
                 "Shows for each sharded optimizer which parameters this rank owns, and the bytes "
                 "of parameters, gradients,\n"
                 "master copies, optimizer state and communication buffers. Beside them stand the "
                 "bytes that the ZeRO paper\n"
                 "counts, and each difference with its cause. It knows PyTorch's "
                 "ZeroRedundancyOptimizer, DeepSpeed's\n"
                 "stages 1 to 3, FSDP1 and FSDP2. It reads the process or core from outside; no "
                 "code "
                 "runs there.\n"
                 "\n"
                 "Example: gpumem zero --pid 4711",
        .shell = true,
        .gdb = true,
        .run = run,
};
