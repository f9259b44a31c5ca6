#include "ask/info.h"
#include "ask/target/target_info.h"

#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/target.h"
#include "render/answers.h"
#include "render/memory.h"

extern const struct gm_command gm_command_info;

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *target_info(struct gm_context *context, bool json, FILE *out)
{
	struct gm_target_info info;
	gm_try(gm_ask_target_info(context, &info));
	struct gm_error *error = NULL;
	if (json)
		error = gm_render_target_info_json(&info, out);
	else
		gm_render_target_info_text(&info, out);
	gm_target_info_deinit(&info);
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	bool target;
	gm_try(gm_arguments_parse(&gm_command_info, argc, argv, options, gm_target_option, context,
	        GM_ARGUMENTS_MAX, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count > 1) {
		const struct gm_compare_options by_line = {.by = GM_BY_LINE};
		const struct gm_compare_view view = {.files_only = true};
		if (context->shell && (context->core_path || context->pid > 0))
			return gm_error_create(GM_USAGE,
			        "%s: both several FILEs and a process or core were given: leave "
			        "one out",
			        arguments.positional[0]);
		return gm_compare_files(context, &arguments, &by_line, &view, out, NULL);
	}
	gm_try(gm_target_take_file(&arguments, context, 0, &target));
	if (target)
		return target_info(context, arguments.json, out);
	struct gm_info info;
	gm_try(gm_ask_info(context, &info));
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments.json ? gm_render_info_json(&info, out)
	                                        : gm_render_info_text(&info, &style, out);
	gm_info_deinit(&info);
	return error;
}

const struct gm_command gm_command_info = {
        .name = "info",
        .summary = "devices, allocated and reserved bytes, peaks and completeness of a recording, "
                   "process or core",
        .usage = "[FILE... | --pid PID | --core CORE] [--json]\n"
                 "Shows the contents of a recording, and how complete it is. For a process or a "
                 "core dump without\n"
                 "a recording, it shows the figures of PyTorch's allocator. In gdb the default is "
                 "the session's\n"
                 "own recording, or else the current program.\n"
                 "\n"
                 " Example: gpumem info run.gpumem\n"
                 " Example: gpumem info run.*.gpumem\n"
                 " Example: gpumem info --pid 4711",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
