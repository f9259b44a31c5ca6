#include "ask/info.h"

#include "cli/arguments.h"
#include "cli/command.h"
#include "render/answers.h"

extern const struct gm_command gm_command_info;

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_error *error = gm_arguments_parse(
	        &gm_command_info, argc, argv, NULL, NULL, NULL, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_arguments_take_file(&arguments, context, 0);
	struct gm_info info;
	if (!error)
		error = gm_ask_info(context, &info);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_info_json(&info, out)
	                       : gm_render_info_text(&info, &style, out);
	gm_info_deinit(&info);
	return error;
}

const struct gm_command gm_command_info = {
        .name = "info",
        .summary =
                "devices, allocated and reserved bytes, peak, events, completeness of a recording",
        .usage = "[FILE] [--json]\n"
                 "What a recording holds, and how complete it is. FILE is needed in a shell; in "
                 "gdb the\n"
                 "session's own recording is meant without it.\n\n"
                 "Example: gpumem info run.gpumem",
        .shell = true,
        .gdb = true,
        .run = run,
};
