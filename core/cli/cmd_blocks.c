#include <stdlib.h>
#include <string.h>

#include "ask/blocks.h"
#include "model/condition.h"
#include "ask/context.h"
#include "ask/target/target_blocks.h"
#include "base/cleanup.h"
#include "base/nearest_word.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/target.h"
#include "render/answers.h"
#include "render/memory.h"

struct options {
	struct gm_context *context;
	struct gm_blocks_options blocks;
	struct gm_condition *where; /* owned; NULL: none */
	bool history, explain;
	const char *since; /* a file; NULL: none */
	uint64_t address;
};

enum {
	KEY_AT = 0x1101,
	KEY_AT_PEAK,
	KEY_HISTORY,
	KEY_BY,
	KEY_DEVICE,
	KEY_EXPLAIN,
	KEY_SINCE,
	KEY_TREE,
	KEY_WHERE,
	KEY_SORT,
	KEY_TOP
};

extern const struct gm_command gm_command_blocks;

static const struct argp_option option_table[] = {
        {"at", KEY_AT, "EVENT", 0, "the blocks that were allocated after this event", 0},
        {"at-peak", KEY_AT_PEAK, NULL, 0, "the blocks that were allocated at the peak", 0},
        {"history", KEY_HISTORY, "ADDRESS", 0, "the blocks that used an address, in order", 0},
        {"by", KEY_BY, "WHAT", 0,
                "groups by line, stack, phase, category, operator, module, label, shape or dtype; "
                "for a process or core by category, module or shape",
                0},
        {"tree", KEY_TREE, NULL, 0,
                "the calls that led to the allocations, with the bytes below each call", 0},
        {"since", KEY_SINCE, "FILE", 0,
                "with --by: the changes since the answer that `--by WHAT --json` wrote to FILE", 0},
        {"where", KEY_WHERE, "CONDITION", 0,
                "only the blocks that meet this condition, such as 'category=gradient and "
                "size>1MiB'",
                0},
        {"sort", KEY_SORT, "ORDER", 0, "size (biggest first), age (oldest first) or address", 0},
        {"top", KEY_TOP, "N", 0, "only the first N blocks or groups", 0},
        {"explain", KEY_EXPLAIN, NULL, 0, "each block's category, and the reason for it", 0},
        GM_DEVICE_OPTION(KEY_DEVICE),
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *parse_order(const char *text, enum gm_blocks_order *ret_order)
{
	static const char *const orders[] = {[GM_BIGGEST_FIRST] = "size",
	        [GM_OLDEST_FIRST] = "age",
	        [GM_BY_ADDRESS] = "address",
	        NULL};
	size_t index;
	gm_try(gm_word_choose("--sort", text, orders, &index));
	*ret_order = (enum gm_blocks_order)index;
	return NULL;
}

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	switch (key) {
	case KEY_AT:
		options->blocks.has_event = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->blocks.event),
		        "--at");
	case KEY_AT_PEAK:
		options->blocks.at_peak = true;
		return NULL;
	case KEY_HISTORY:
		options->history = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, UINT64_MAX, &options->address), "--history");
	case KEY_SINCE:
		options->since = argument;
		return NULL;
	case KEY_TREE:
		options->blocks.tree = true;
		return NULL;
	case KEY_WHERE:
		gm_condition_destroy(options->where);
		options->where = NULL;
		return gm_error_prefix(
		        gm_condition_parse(argument, GM_OF_BLOCKS, NULL, &options->where),
		        "--where");
	case KEY_SORT:
		return parse_order(argument, &options->blocks.order);
	case KEY_TOP:
		return gm_error_prefix(
		        gm_parse_number(argument, 1, UINT32_MAX, &options->blocks.top), "--top");
	case KEY_EXPLAIN:
		options->explain = true;
		return NULL;
	case KEY_DEVICE:
		options->blocks.has_device = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, INT16_MAX, &options->blocks.device),
		        "--device");
	case KEY_BY:
		return gm_parse_group_by(argument, &options->blocks.by);
	default:
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *show_history(struct gm_context *context, const struct options *options,
        bool json, const struct gm_style *style, FILE *out)
{
	const struct gm_model *model;
	uint32_t *blocks;
	size_t count;
	struct gm_error *error = gm_ask_history(context, options->address, &model, &blocks, &count);
	if (error)
		return error;
	error = json ? gm_render_history_json(model, options->address, blocks, count, out)
	             : gm_render_history_text(model, blocks, count, style, out);
	free(blocks);
	return error;
}

/* For a process or core: the moment is now, and it is not known which line created a block. */
static struct gm_error *show_target(struct gm_context *context, const struct options *options,
        bool json, const struct gm_style *style, FILE *out)
{
	enum gm_group_by by = options->blocks.by;
	if (options->blocks.has_event || options->blocks.at_peak || options->history ||
	        options->explain || options->blocks.tree || options->where ||
	        options->blocks.order != GM_BIGGEST_FIRST || options->blocks.top)
		return gm_error_create(GM_TARGET,
		        "blocks: --at, --at-peak, --history, --explain, --tree, --where, --sort "
		        "and "
		        "--top need a recording: leave them out, or record the program");
	if (by == GM_BY_LABEL)
		return gm_error_create(GM_TARGET,
		        "blocks: --by label: only PyTorch's snapshots have labels "
		        "(torch.cuda.memory._annotate_tensor): dump one and name its file");
	if (by == GM_BY_DTYPE)
		return gm_error_create(GM_USAGE,
		        "blocks: --by dtype: for a process or core use --by shape, which has the "
		        "dtypes too");
	if (by == GM_BY_LINE || by == GM_BY_STACK || by == GM_BY_PHASE || by == GM_BY_OPERATOR)
		return gm_error_create(GM_TARGET,
		        "blocks: --by %s: the places of allocation were not recorded: use "
		        "--by=category, module or shape, or record the program",
		        by == GM_BY_LINE    ? "line"
		        : by == GM_BY_STACK ? "stack"
		        : by == GM_BY_PHASE ? "phase"
		                            : "operator");
	struct gm_target_blocks blocks;
	gm_try(gm_ask_target_blocks(context,
	        options->blocks.has_device ? (int)options->blocks.device : -1, by, &blocks));
	struct gm_error *error = NULL;
	if (options->since)
		error = gm_render_blocks_since(&blocks, options->since, json, style, out);
	else if (json)
		error = gm_render_target_blocks_json(&blocks, by == GM_BY_NONE, out);
	else
		error = gm_render_target_blocks_text(&blocks,
		        by == GM_BY_MODULE  ? "kept by module"
		        : by == GM_BY_SHAPE ? "tensors"
		        : by                ? "category"
		                            : NULL,
		        style, out);
	gm_target_blocks_deinit(&blocks);
	return error;
}

static void destroy_where(struct gm_condition **where)
{
	gm_condition_destroy(*where);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context, .blocks.descend = true};
	struct gm_error *error = gm_arguments_parse(&gm_command_blocks, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	_cleanup_(destroy_where) struct gm_condition *where = options.where;
	options.blocks.where = where;
	if (error || arguments.help)
		return error;
	if (options.history && (where || options.blocks.top || options.blocks.order))
		return gm_error_create(GM_USAGE,
		        "blocks: --history excludes --where, --sort and --top: leave them out");
	if (options.explain && options.blocks.by != GM_BY_NONE)
		return gm_error_create(GM_USAGE, "blocks: --explain and --by exclude each other: a "
		                                 "reason belongs to one block: choose one");
	if (options.blocks.tree &&
	        (options.blocks.by != GM_BY_NONE || options.explain || options.history))
		return gm_error_create(GM_USAGE,
		        "blocks: --tree excludes --by, --explain and --history: leave them out");
	if (options.blocks.has_event + options.blocks.at_peak + options.history > 1)
		return gm_error_create(GM_USAGE,
		        "blocks: --at, --at-peak and --history exclude each other: choose one");
	bool target = false;
	enum gm_group_by by = options.blocks.by;
	if (options.since && by != GM_BY_CATEGORY && by != GM_BY_MODULE && by != GM_BY_SHAPE)
		return gm_error_create(GM_USAGE, "blocks: --since compares groups of a process: "
		                                 "add --by shape, module or category");
	bool here = gm_context_has_target(context);
	if (by == GM_BY_MODULE && here && (arguments.positional_count || !context->shell))
		/* for a recording, together with its process or core */
		error = arguments.positional_count || context->log_path
		                ? gm_arguments_take_file(&arguments, context, 0)
		                : (target = true, NULL);
	else if ((by == GM_BY_SHAPE || options.since) && !context->shell && here)
		target = true; /* in gdb: for the process, recorded or not */
	else
		error = gm_target_take_file(&arguments, context, 0, &target);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	if (target)
		return show_target(context, &options, arguments.json, &style, out);
	if (options.history)
		return show_history(context, &options, arguments.json, &style, out);
	bool groups = options.blocks.by != GM_BY_NONE;
	if (!groups)
		options.blocks.by = GM_BY_LINE;
	struct gm_blocks blocks;
	error = gm_ask_blocks(context, &options.blocks, &blocks);
	if (error)
		return error;
	if (where && blocks.model && !gm_model_has_names(blocks.model) &&
	        gm_condition_mentions(where, GM_FACT_NAME))
		gm_put(err,
		        "gpumem: the recording has no names of tensors: record with `gpumem run "
		        "--names`\n");
	if (!groups) {
		/* Shapes are optional: if the process cannot be read, the blocks are the answer. */
		_cleanup_error_ struct gm_error *unknown = gm_ask_blocks_annotate(context, &blocks);
		if (unknown)
			gm_put(err, "gpumem: shapes are not known: %s\n", unknown->message);
	}
	if (options.explain && !arguments.json)
		error = gm_render_blocks_explained(&blocks, &style, out);
	else
		error = arguments.json ? gm_render_blocks_json(&blocks, !groups, out)
		                       : gm_render_blocks_text(&blocks, groups, &style, out);
	gm_blocks_deinit(&blocks);
	return error;
}

const struct gm_command gm_command_blocks = {
        .name = "blocks",
        .summary =
                "the allocated blocks at an event, biggest first; the blocks that used an address",
        .usage = "[FILE | --pid PID | --core CORE] [--at=EVENT | --at-peak | --history=ADDRESS] "
                 "[--by=WHAT [--since=FILE] | --tree] [--where=CONDITION] [--sort=ORDER] [--top=N] "
                 "[--explain] [--json]\n"
                 "Shows the blocks that were allocated after an event; the default is the end of "
                 "the recording.\n"
                 "For a process or a core dump: the blocks that are allocated now, described by "
                 "the live tensors.\n"
                 "--by groups them; the sums add up to the allocated bytes. By module: a recording "
                 "has the classes\n"
                 "of the modules that were called. With its process or core in addition, modules "
                 "that keep blocks\n"
                 "are shown by their paths (layers.3.mlp).\n"
                 "\n"
                 "A CONDITION compares properties (size, requested, step, stream, address, "
                 "category, phase, dtype,\n"
                 "shape, line, function, operator, node, module, collective, label, name, range)\n"
                 "by = != < <= > >= and ~ (contains), and combines them by and, or, not and "
                 "parentheses. A line is FILE or FILE:LINE, of any frame "
                 "of the stack. In a\n"
                 "shape * is any size, ... any number of sizes. A name is the name of a tensor in "
                 "the block when\n"
                 "names were read (`gpumem run --names`): layers.0.weight, layers.*, *.grad, "
                 "'exp_avg of *'.\n"
                 "A range is one that was open at the allocation (gpumem.range, NVTX, "
                 "record_function). A label is\n"
                 "the text of _annotate_tensor(), in PyTorch's snapshots.\n"
                 "\n"
                 " Example: gpumem blocks run.gpumem --at-peak --by line\n"
                 " Example: gpumem blocks run.gpumem --where 'dtype=float16 and shape=[..., 50257]'"
                 "\n"
                 " Example: gpumem blocks run.gpumem --at-peak --explain\n"
                 " Example: gpumem blocks run.gpumem --at-peak --by module --pid 4711\n"
                 " Example: gpumem blocks --pid 4711 --by shape --json >before.json\n"
                 " Example: gpumem blocks --pid 4711 --by shape --since before.json",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
