#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/compare.h"

enum { KEY_BY = 0x1101, KEY_STEP };

extern const struct gm_command gm_command_diff;

static const struct argp_option option_table[] = {
        {"by", KEY_BY, "WHAT", 0,
                "compares by line, stack, phase, category, operator, module or label (by category "
                "and line)",
                0},
        {"step", KEY_STEP, "N", 0,
                "compares at the peak of step N, instead of the peak of each run", 0},
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct gm_compare_options *options = input;
	uint64_t step;
	if (key == KEY_BY)
		return gm_parse_group_by(argument, &options->by);
	gm_try(gm_error_prefix(gm_parse_number(argument, 1, UINT32_MAX - 1, &step), "--step"));
	options->step = (uint32_t)step;
	return NULL;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_compare_options options = {.by = GM_BY_NONE};
	gm_try(gm_arguments_parse(&gm_command_diff, argc, argv, option_table, handle, &options,
	        GM_ARGUMENTS_MAX, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count < 2)
		return gm_error_create(GM_USAGE, "diff: needs two recordings or snapshots: name "
		                                 "both, as in `gpumem diff A B`");
	const struct gm_compare_view view = {0};
	bool equal;
	gm_try(gm_compare_files(context, &arguments, &options, &view, out, &equal));
	*ret_status = !equal;
	return NULL;
}

const struct gm_command gm_command_diff = {
        .name = "diff",
        .summary = "two runs side by side: their peaks, by category and line, and their steps",
        .usage = "A B [MORE...] [--by WHAT] [--step N] [--json]\n"
                 "Compares recordings or snapshots: the allocated blocks at the peak of each, or "
                 "with\n"
                 "--step at the peak of that step, and the steps. With three or more files (the "
                 "ranks\n"
                 "of a job), names the one that differs from the others. Exit status 1: they "
                 "differ.\n"
                 "\n"
                 " Example: gpumem diff before.gpumem after.gpumem\n"
                 " Example: gpumem diff run.*.gpumem --by category",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
