#include <stdlib.h>

#include "ask/blocks.h"
#include "ask/leaks.h"
#include "ask/target/recording.h"
#include "ask/context.h"
#include "ask/recording/leak.h"
#include "base/cleanup.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/leaks.h"

extern const struct gm_command gm_command_leaks;

enum { KEY_DEVICE = 0x1001 };

struct options {
	struct gm_context *context;
	int device; /* -1: the main one */
};

static const struct argp_option option_table[] = {
        GM_DEVICE_OPTION(KEY_DEVICE),
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	return key == KEY_DEVICE ? gm_parse_device(argument, &options->device)
	                         : gm_target_option(options->context, key, argument);
}

/* The record: FILE, unless that is a core; of a process that is being recorded its own; else
 * PyTorch's trace in the process or core. */
static struct gm_error *take_record(struct gm_arguments *arguments, struct gm_context *context)
{
	_cleanup_free_ char *path = NULL;
	gm_try(gm_target_take_core(arguments, context, 0));
	bool named = context->shell && (context->pid > 0 || context->core_path);
	if (arguments->positional_count || !named)
		return gm_arguments_take_file(arguments, context, 0);
	if (context->pid > 0)
		gm_try(gm_recording_find(context->pid, &path));
	return path ? gm_context_set_log(context, path) : NULL;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .device = -1};
	size_t device;
	struct gm_error *error = gm_arguments_parse(&gm_command_leaks, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = take_record(&arguments, context);
	struct gm_leaks answer;
	if (!error)
		error = gm_ask_device(context, options.device, &device);
	if (!error)
		error = gm_ask_leaks_of(context, device, &answer);
	if (error)
		return error;
	if (gm_context_has_target(context)) {
		/* Who holds them is an extra: where the process cannot be asked, the lines are the
		 * answer. */
		_cleanup_error_ struct gm_error *unknown = gm_ask_leaks_holders(context, &answer);
		if (unknown)
			gm_put(err, "gpumem: holders are not known: %s\n", unknown->message);
	}
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_leaks_json(&answer, out)
	                       : gm_render_leaks_text(&answer, &style, out);
	*ret_status = answer.count != 0;
	gm_leaks_deinit(&answer);
	return error;
}

const struct gm_command gm_command_leaks = {
        .name = "leaks",
        .summary = "lines whose blocks accumulate from step to step, and what holds them",
        .usage = "[FILE | CORE] [--pid PID | --core CORE] [--device N] [--json]\n"
                 "Shows lines whose allocated memory grows with each step. It ignores the first "
                 "step, which allocates\n"
                 "what all steps use, and the last one, whose blocks the next step may free.\n"
                 "For a live process (in gdb: the current one) or a core, it also shows the "
                 "variable that holds\n"
                 "each line's oldest of these blocks. Without FILE it reads the process's own "
                 "recording "
                 "(`gpumem run`,\n"
                 "`gpumem attach`), or else PyTorch's trace in the process.\n"
                 "Exit status: 0 no leak was found; 1 one or more were found.\n"
                 "\n"
                 " Example: gpumem leaks run.gpumem\n"
                 " Example: gpumem leaks --pid 4711\n"
                 " Example: gpumem leaks core.4711\n"
                 " Example: gpumem leaks run.gpumem --core core.4711",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
