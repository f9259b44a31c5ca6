#include "ask/why.h"
#include "ask/blocks.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/answers.h"

struct options {
	bool has_event;
	uint64_t event;
};

enum { KEY_AT = 0x1001 };

extern const struct gm_command gm_command_why;

static const struct argp_option option_table[] = {
        {"at", KEY_AT, "EVENT", 0, "the block that was alive at the address after this event", 0},
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	options->has_event = true;
	return gm_error_prefix(
	        gm_parse_number(argument, 0, UINT32_MAX - 1, &options->event), "--at");
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {0};
	struct gm_error *error = gm_arguments_parse(&gm_command_why, argc, argv, option_table,
	        handle, &options, 2, false, out, &arguments);
	if (error || arguments.help)
		return error;
	/* One word in a shell names the recording; the block is what is missing then. */
	if (context->shell && arguments.positional_count == 1 && !context->log_path)
		return gm_error_create(GM_USAGE, "why: FILE or BLOCK is missing: both are needed: "
		                                 "as in `gpumem why run.gpumem "
		                                 "'#12'`");
	error = gm_arguments_take_file(&arguments, context, 1);
	if (error)
		return error;
	if (arguments.positional_count != 1)
		return gm_error_create(GM_USAGE,
		        "why: no BLOCK given: the question is about one: name it by 0x… or #N, "
		        "as `gpumem blocks` does");
	uint32_t block;
	struct gm_why why;
	error = gm_ask_block(
	        context, arguments.positional[0], options.has_event, options.event, &block);
	if (!error)
		error = gm_ask_why(context, block, &why);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	error = arguments.json ? gm_render_why_json(&why, out)
	                       : gm_render_why_text(&why, &style, out);
	gm_why_deinit(&why);
	return error;
}

const struct gm_command gm_command_why = {
        .name = "why",
        .summary =
                "a block's life: who made it, who let it go, how late, and what kept it until then",
        .usage = "[FILE] BLOCK [--at=EVENT] [--json]\n"
                 "BLOCK is an address (0x…; the latest block there) or #N, the number of the event "
                 "that\n"
                 "allocated it; in gdb also a variable of the selected thread, such as output.\n\n"
                 "Example: gpumem why run.gpumem '#12'",
        .shell = true,
        .gdb = true,
        .run = run,
};
