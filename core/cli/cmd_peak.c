#include "ask/peak.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/target.h"
#include "render/answers.h"

extern const struct gm_command gm_command_peak;

struct input {
	struct gm_context *context;
	struct gm_blocks_options blocks;
};

enum { KEY_DEVICE = 0x1101, KEY_BY, KEY_TREE };

static const struct argp_option option_table[] = {
        GM_DEVICE_OPTION(KEY_DEVICE),
        {"by", KEY_BY, "WHAT", 0,
                "groups by line (default), stack, phase, category, operator, module or label", 0},
        {"tree", KEY_TREE, NULL, 0,
                "the calls that led to the allocations, with the bytes below each call", 0},
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct input *options = input;
	if (key == KEY_BY)
		return gm_parse_group_by(argument, &options->blocks.by);
	if (key == KEY_TREE) {
		options->blocks.tree = true;
		return NULL;
	}
	if (key != KEY_DEVICE)
		return gm_target_option(options->context, key, argument);
	options->blocks.has_device = true;
	return gm_error_prefix(
	        gm_parse_number(argument, 0, INT16_MAX, &options->blocks.device), "--device");
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input options = {context, {.by = GM_BY_LINE, .descend = true}};
	bool target;
	struct gm_error *error = gm_arguments_parse(&gm_command_peak, argc, argv, option_table,
	        handle, &options, GM_ARGUMENTS_MAX, false, out, &arguments);
	if (error || arguments.help)
		return error;
	if (arguments.positional_count > 1 && options.blocks.tree)
		return gm_error_create(GM_USAGE, "peak: --tree takes one FILE: name one");
	if (arguments.positional_count > 1) {
		const struct gm_compare_options by = {.by = options.blocks.by};
		const struct gm_compare_view view = {.all = true};
		return gm_compare_files(context, &arguments, &by, &view, out, NULL);
	}
	/* a recording may have its process or core with it, which knows modules by their paths */
	if (arguments.positional_count && gm_context_has_target(context))
		error = gm_arguments_take_file(&arguments, context, 0);
	else
		error = gm_target_take_file(&arguments, context, 0, &target);
	if (error)
		return error;
	/* in gdb there is always a process, and a user who did not ask for paths need not wait for
	 * them */
	bool knows = context->shell && gm_context_has_target(context);
	struct gm_peak peak;
	gm_try(gm_ask_peak(context, &options.blocks, knows, &peak));
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json
	                ? gm_render_peak_json(&peak.blocks, &peak.modules, &peak.secondary, out)
	                : gm_render_peak_text(
	                          &peak.blocks, &peak.modules, &peak.secondary, &style, out);
	gm_peak_deinit(&peak);
	return error;
}

const struct gm_command gm_command_peak = {
        .name = "peak",
        .summary = "what makes up the peak",
        .usage = "[FILE...] [--pid PID | --core CORE] [--by WHAT | --tree] [--device N] [--json]\n"
                 "Shows the blocks that were allocated when the allocated bytes first reached "
                 "their maximum, by the\n"
                 "lines that allocated them. A training step has two peaks, one in forward and "
                 "backward and one in the\n"
                 "optimizer's step: the lower of them is shown too. If one line of yours calls a "
                 "library (a trainer, an\n"
                 "inference server) that allocates a quarter of the peak or more, these blocks are "
                 "shown by the library's\n"
                 "own lines, as in model.py:9 in Net.forward ← train.py:7; --tree shows all calls."
                 "\n"
                 "Several files, such as those of ranks, are shown side by side. --by module uses "
                 "the classes of the\n"
                 "modules that were called. With --pid or --core, with or without FILE, it also "
                 "shows the sums by the\n"
                 "paths of the modules that keep a block now (layers.3.mlp).\n"
                 "\n"
                 " Example: gpumem peak run.gpumem\n"
                 " Example: gpumem peak run.gpumem --by module\n"
                 " Example: gpumem peak run.gpumem --tree\n"
                 " Example: gpumem peak run.gpumem --core core.4711\n"
                 " Example: gpumem peak run.*.gpumem",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
