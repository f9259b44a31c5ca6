#include "ask/timeline.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/timeline.h"

struct options {
	struct gm_context *context;
	uint64_t width;
};

enum { KEY_WIDTH = 0x1001 };

extern const struct gm_command gm_command_timeline;

static const struct argp_option option_table[] = {
        {"width", KEY_WIDTH, "N", 0,
                "the width of the plot with its labels, in columns (the terminal's)", 0},
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key != KEY_WIDTH)
		return gm_target_option(options->context, key, argument);
	return gm_error_prefix(gm_parse_number(argument, GM_PLOT_COLUMNS_MIN, GM_PLOT_COLUMNS_MAX,
	                               &options->width),
	        "--width");
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {context, 0};
	bool target;
	struct gm_error *error = gm_arguments_parse(&gm_command_timeline, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	struct gm_column columns[GM_PLOT_COLUMNS_MAX];
	size_t count = 0;
	struct gm_shapes shapes;
	if (!error)
		error = gm_ask_plot(context, columns,
		        gm_plot_columns(options.width ? (int)options.width : context->columns),
		        &count);
	if (!error)
		error = gm_ask_shapes(context, &shapes);
	struct gm_collectives collectives;
	if (!error)
		error = gm_collectives_find(shapes.model, &collectives);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_timeline_json(&shapes, &collectives, columns, count, out)
	                       : gm_render_timeline_text(
	                                 &shapes, &collectives, columns, count, &style, out);
	gm_collectives_deinit(&collectives);
	return error;
}

const struct gm_command gm_command_timeline = {
        .name = "timeline",
        .summary = "a plot in the terminal, with steps, phases and peak, and a description of the "
                   "shapes in the plot",
        .usage = "[FILE | --pid PID | --core CORE] [--width=N] [--json]\n"
                 "Plots the allocated bytes over the events of the recording, coloured by phase "
                 "(not with NO_COLOR).\n"
                 "Below the plot it lists the shapes in it: the band of parameters, the rise of "
                 "forward, the slab,\n"
                 "the spike, the cliff, ... with their bytes and lines, for the second step or the "
                 "only one.\n"
                 "\n"
                 "Example: gpumem timeline run.gpumem",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
