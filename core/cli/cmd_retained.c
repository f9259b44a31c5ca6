#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/retained.h"
#include "ask/retained.h"
#include "ask/retained_diff.h"

extern const struct gm_command gm_command_retained;

enum { OPTION_DEPTH = 0x1001, OPTION_MIN, OPTION_HOST, OPTION_SAVE, OPTION_DIFF };

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        {"depth", OPTION_DEPTH, "N", 0, "levels of parts to show (3; with --json all)", 0},
        {"min", OPTION_MIN, "BYTES", 0,
                "combines parts smaller than this (1/200 of all; with --json none)", 0},
        {"cpu", OPTION_HOST, 0, 0, "tensors in host memory, instead of a device's", 0},
        {"save", OPTION_SAVE, "FILE", 0, "also saves the answer in FILE, for --diff",
                GM_EFFECT_FILES},
        {"diff", OPTION_DIFF, "FILE", 0,
                "the changes since FILE was saved (with AFTER: until AFTER was saved)", 0},
        {0},
};

struct input {
	struct gm_context *context;
	struct gm_retained_view view;
	bool host;
	const char *save, *diff;
};

static struct gm_error *take_option(void *context, int key, const char *argument)
{
	struct input *input = context;
	uint64_t number;
	switch (key) {
	case OPTION_DEPTH:
		gm_try(gm_parse_number(argument, 1, 1000, &number));
		input->view.depth = (uint32_t)number;
		return NULL;
	case OPTION_MIN:
		input->view.has_min = true;
		return gm_parse_number(argument, 0, UINT64_MAX, &input->view.min);
	case OPTION_HOST:
		input->host = true;
		return NULL;
	case OPTION_SAVE:
		input->save = argument;
		return NULL;
	case OPTION_DIFF:
		input->diff = argument;
		return NULL;
	default:
		return gm_target_option(input->context, key, argument);
	}
}

static struct gm_error *show_diff(const struct input *input, const struct gm_retained *after,
        const struct gm_arguments *arguments, FILE *out)
{
	struct gm_retained before;
	struct gm_retained_diff diff;
	gm_try(gm_retained_load(input->diff, &before));
	struct gm_error *error = gm_ask_retained_diff(&before, after, &diff);
	struct gm_style style = {
	        .columns = input->context->columns, .colors = input->context->colors};
	if (!error) {
		error = arguments->json
		                ? gm_render_retained_diff_json(&diff, &input->view, out)
		                : gm_render_retained_diff_text(&diff, &input->view, &style, out);
		gm_retained_diff_deinit(&diff);
	}
	gm_retained_deinit(&before);
	return error;
}

/* Two saved answers: no process is read. */
static struct gm_error *compare_files(
        const struct input *input, const struct gm_arguments *arguments, FILE *out)
{
	struct gm_retained after;
	if (!input->diff)
		return gm_error_create(GM_USAGE,
		        "retained: '%s' is not a core dump: a saved answer needs --diff: name a "
		        "process or core with --pid PID or --core CORE",
		        arguments->positional[0]);
	gm_try(gm_retained_load(arguments->positional[0], &after));
	struct gm_error *error = show_diff(input, &after, arguments, out);
	gm_retained_deinit(&after);
	return error;
}

static struct gm_error *show(const struct input *input, const struct gm_retained_answer *answer,
        const struct gm_arguments *arguments, FILE *out)
{
	struct gm_style style = {
	        .columns = input->context->columns, .colors = input->context->colors};
	if (input->diff)
		return show_diff(input, &answer->retained, arguments, out);
	return arguments->json ? gm_render_retained_json(answer, &input->view, out)
	                       : gm_render_retained_text(answer, &input->view, &style, out);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {.context = context};
	gm_try(gm_arguments_parse(&gm_command_retained, argc, argv, options, take_option, &input, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_target_take_core(&arguments, context, 0));
	if (arguments.positional_count)
		return compare_files(&input, &arguments, out);
	struct gm_retained_answer answer;
	gm_try(gm_ask_retained(context, input.host, &answer));
	struct gm_error *error = show(&input, &answer, &arguments, out);
	if (!error && input.save)
		error = gm_retained_save(&answer, input.save);
	gm_retained_answer_deinit(&answer);
	return error;
}

const struct gm_command gm_command_retained = {
        .name = "retained",
        .summary = "how much memory each variable keeps alive",
        .usage =
                "[CORE | --pid PID | --core CORE] [--depth N] [--min BYTES] [--cpu] [--save FILE]\n"
                "       gpumem retained --diff BEFORE [AFTER | --pid PID | --core CORE] [--json]\n"
                "Divides all device memory among the variables that alone keep it: locals of "
                "running functions\n"
                "and globals. Within them it shows the parts that a user would name: an "
                "optimizer's state, a\n"
                "module's parameters, the items of a list, tensors that autograd saved for "
                "backward. Memory that\n"
                "several variables share is listed separately, with their names. The sum equals "
                "the allocator's\n"
                "allocated bytes. Memory without a known holder is called unknown.\n"
                "\n"
                " Example: gpumem retained --pid 4711\n"
                " Example: gpumem retained core.4711 --depth 5 --min 1000000\n"
                " Example: gpumem retained --pid 4711 --save before.json\n"
                " Example: gpumem retained --pid 4711 --diff before.json",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
