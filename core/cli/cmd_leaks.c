#include "ask/leaks.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/leaks.h"

extern const struct gm_command gm_command_leaks;

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(
	        &gm_command_leaks, argc, argv, NULL, NULL, NULL, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_arguments_take_file(&arguments, context, 0);
	struct gm_leaks answer;
	if (!error)
		error = gm_ask_leaks(context, &answer);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_leaks_json(&answer, out)
	                       : gm_render_leaks_text(&answer, &style, out);
	*ret_status = answer.count != 0;
	gm_leaks_deinit(&answer);
	return error;
}

const struct gm_command gm_command_leaks = {
        .name = "leaks",
        .summary = "lines whose blocks pile up step over step",
        .usage = "[FILE] [--json]\n"
                 "Lines that leave more memory behind with each step. The first step and the last "
                 "one "
                 "are not\n"
                 "looked at: the first makes what all use, and the next may free what the last "
                 "made.\n"
                 "Exit status 1: some were found.\n\n"
                 "Example: gpumem leaks run.gpumem",
        .shell = true,
        .gdb = true,
        .run = run,
};
