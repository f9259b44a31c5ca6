#include "ask/blocks.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/answers.h"

extern const struct gm_command gm_command_peak;

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(
	        &gm_command_peak, argc, argv, NULL, NULL, NULL, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_arguments_take_file(&arguments, context, 0);
	const struct gm_blocks_options options = {.by = GM_BY_LINE, .at_peak = true};
	struct gm_blocks blocks;
	if (!error)
		error = gm_ask_blocks(context, &options, &blocks);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_blocks_json(&blocks, false, out)
	                       : gm_render_peak_text(&blocks, &style, out);
	gm_blocks_deinit(&blocks);
	return error;
}

const struct gm_command gm_command_peak = {
        .name = "peak",
        .summary = "what makes the peak",
        .usage = "[FILE] [--json]\n"
                 "What was allocated where the allocated bytes first reached their greatest sum, "
                 "by the\n"
                 "lines that allocated it.\n\n"
                 "Example: gpumem peak run.gpumem",
        .shell = true,
        .gdb = true,
        .run = run,
};
