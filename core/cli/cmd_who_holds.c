#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/who_holds.h"
#include "ask/who_holds.h"

extern const struct gm_command gm_command_who_holds;

enum { OPTION_ALL = 0x1001 };

static const struct argp_option options[] = {
        GM_TARGET_OPTIONS,
        GM_TARGET_THREAD_OPTION,
        {"all", OPTION_ALL, 0, 0, "also all paths from frames of PyTorch and Python", 0},
        {0},
};

struct input {
	struct gm_context *context;
	bool all;
};

static struct gm_error *take_option(void *context, int key, const char *argument)
{
	struct input *input = context;
	if (key != OPTION_ALL)
		return gm_target_option(input->context, key, argument);
	input->all = true;
	return NULL;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {context, false};
	gm_try(gm_arguments_parse(&gm_command_who_holds, argc, argv, options, take_option, &input,
	        2, false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_target_take_core(&arguments, context, 1));
	if (arguments.positional_count > 1)
		return gm_error_create(GM_USAGE,
		        "who-holds: %s is not a core dump: holders can only be found in a process "
		        "or a core: name one with --pid PID or --core CORE",
		        arguments.positional[0]);
	if (arguments.positional_count != 1)
		return gm_error_create(GM_USAGE,
		        "who-holds: no block given: give an address (0x…), #N (the event "
		        "that allocated it) or a variable");
	struct gm_who_holds result;
	gm_try(gm_ask_who_holds(context, arguments.positional[0], &result));
	struct gm_error *error = arguments.json ? gm_render_who_holds_json(&result, out)
	                                        : gm_render_who_holds(&result, input.all, out);
	gm_who_holds_deinit(&result);
	return error;
}

const struct gm_command gm_command_who_holds = {
        .name = "who-holds",
        .summary = "what keeps a block alive: every variable, and the references between",
        .usage =
                "[CORE | --pid PID | --core CORE] BLOCK [--thread TID] [--all] [--json]\n"
                "Searches the process, or a core dump of it, backwards from a block of memory "
                "through\n"
                "storages, tensors, the autograd graph and Python's objects to local variables "
                "and\n"
                "modules. Reference counts show whether everything was found. BLOCK is an address\n"
                "within the block, #N (the number of the event that allocated it) or a variable "
                "path of\n"
                "the selected thread (in a shell the main thread, or --thread). A core need not "
                "contain\n"
                "device memory. Libraries that it left out are read from disk.\n"
                "\n"
                " Example: gpumem who-holds output\n"
                " Example: gpumem who-holds --pid 4711 0x7f2b40000000\n"
                " Example: gpumem who-holds core.4711 \"self.cache['kept']\"",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
