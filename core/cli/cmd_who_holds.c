#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/who_holds.h"

extern const struct gm_command gm_command_who_holds;

enum { OPTION_PID = 'p' };

static const struct argp_option options[] = {
        {"pid", OPTION_PID, "PID", 0, "The process to ask about", 0},
        {0},
};

static struct gm_error *handle_option(void *input, int key, const char *argument)
{
	struct gm_context *context = input;
	uint64_t pid;
	if (key != OPTION_PID)
		return NULL;
	gm_try(gm_parse_number(argument, 1, 1 << 30, &pid));
	context->pid = (int)pid;
	return NULL;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	gm_try(gm_arguments_parse(&gm_command_who_holds, argc, argv, options, handle_option,
	        context, 1, false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (arguments.positional_count != 1)
		return gm_error_create(GM_USAGE, "who-holds: which block: give an address (0x…), "
		                                 "#N (the event that allocated it) "
		                                 "or a variable");
	struct gm_who_holds result;
	gm_try(gm_ask_who_holds(context, arguments.positional[0], &result));
	struct gm_error *error = NULL;
	if (arguments.json)
		error = gm_render_who_holds_json(&result, out);
	else
		gm_render_who_holds(&result, out);
	gm_who_holds_deinit(&result);
	return error;
}

const struct gm_command gm_command_who_holds = {
        .name = "who-holds",
        .summary = "what keeps a block alive: every chain of references, root first",
        .usage =
                "BLOCK [--pid PID] [--json]\n"
                "Searches the process backwards from a block of memory through storages, tensors, "
                "the\n"
                "autograd graph and Python's objects to local variables and modules. Reference "
                "counts\n"
                "tell whether everything was found. BLOCK is an address within the block, #N (the\n"
                "number of the event that allocated it) or a variable path of the selected "
                "thread.\n"
                "\n"
                " Example: gpumem who-holds output\n"
                " Example: gpumem who-holds --pid 4711 0x7f2b40000000",
        .shell = true,
        .gdb = true,
        .run = run,
};
