#include <stdlib.h>

#include "ask/why.h"
#include "base/cleanup.h"
#include "ask/blocks.h"
#include "ask/context.h"
#include "base/put.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/answers.h"

struct options {
	struct gm_context *context;
	bool has_event;
	uint64_t event;
};

enum { KEY_AT = 0x1101 };

extern const struct gm_command gm_command_why;

static const struct argp_option option_table[] = {
        {"at", KEY_AT, "EVENT", 0, "the block that was alive at the address after this event", 0},
        GM_TARGET_OPTIONS,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key != KEY_AT)
		return gm_target_option(options->context, key, argument);
	options->has_event = true;
	return gm_error_prefix(
	        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->event), "--at");
}

/* #N may be the event that freed a block: then the answer is about the block, and says so. */
static void say_whose(struct gm_context *context, const char *text, uint32_t block, FILE *err)
{
	struct gm_model *model;
	_cleanup_error_ struct gm_error *error = gm_context_model(context, &model);
	if (error || text[0] != '#')
		return;
	uint64_t event = strtoull(text + 1, NULL, 10);
	uint32_t alloc = gm_model_block(model, block)->alloc;
	if (alloc == GM_NO_EVENT)
		gm_put(err,
		        "gpumem: %s frees a block that was allocated before the recording began\n",
		        text);
	else if (alloc != event)
		gm_put(err,
		        "gpumem: %s frees the block that #%u allocated: the answer is about that "
		        "block\n",
		        text, alloc);
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.context = context};
	bool target;
	struct gm_error *error = gm_arguments_parse(&gm_command_why, argc, argv, option_table,
	        handle, &options, 2, false, out, &arguments);
	if (error || arguments.help)
		return error;
	/* In a shell, a single word names the recording, and the block is missing. */
	if (context->shell && arguments.positional_count == 1 && !context->log_path &&
	        context->pid <= 0 && !context->core_path)
		return gm_error_create(GM_USAGE, "why: FILE or BLOCK is missing: give both, as in "
		                                 "`gpumem why run.gpumem '#12'`");
	error = gm_target_take_file(&arguments, context, 1, &target);
	if (error)
		return error;
	if (arguments.positional_count != 1)
		return gm_error_create(GM_USAGE, "why: no BLOCK given: name one by 0x… or #N, as "
		                                 "`gpumem blocks` does, or by "
		                                 "FILE:LINE");
	uint32_t block;
	size_t count;
	struct gm_why why;
	error = gm_ask_block(
	        context, arguments.positional[0], options.has_event, options.event, &block, &count);
	if (!error)
		error = gm_ask_why(context, block, &why);
	if (error)
		return error;
	say_whose(context, arguments.positional[0], block, err);
	if (count > 1)
		gm_put(err,
		        "gpumem: %s matches %zu blocks: the answer is about the one that the "
		        "program released last\n",
		        arguments.positional[0], count);
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_why_json(&why, out)
	                       : gm_render_why_text(&why, &style, out);
	return error;
}

const struct gm_command gm_command_why = {
        .name = "why",
        .summary = "a block's life: what allocated it, what released it, how late, and what kept "
                   "it until then",
        .usage = "[FILE | --pid PID | --core CORE] BLOCK [--at=EVENT] [--json]\n"
                 "Explains which statement released a block, and what kept it alive until then. "
                 "BLOCK is an\n"
                 "address (0x…; the latest block there) or #N, the number of the event that "
                 "allocated it.\n"
                 "In gdb it can also be a variable of the selected thread, such as output.\n"
                 "In a shell it can also be FILE:LINE, a line that allocated it, the name of a "
                 "tensor in it (`gpumem\n"
                 "run --names`), or the name of the variable that kept it. If several blocks "
                 "match, the one that the\n"
                 "program released last is explained.\n"
                 "\n"
                 " Example: gpumem why run.gpumem '#12'\n"
                 " Example: gpumem why run.gpumem train.py:31\n"
                 " Example: gpumem why run.gpumem output\n"
                 " Example: gpumem why run.gpumem layers.0.weight",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
