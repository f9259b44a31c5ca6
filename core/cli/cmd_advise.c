/* `gpumem advise`: what would lower the peak. */
#include "ask/advise.h"
#include "ask/context.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "render/advise.h"

extern const struct gm_command gm_command_advise;

enum { KEY_ALL = 0x1001, KEY_DEVICE, KEY_WORLD, KEY_PARTS, KEY_CHUNKS };
enum { WORLD = 8, PARTS = 2, CHUNKS = 8, NUMBER_MAX = 1 << 20 };

struct input {
	struct gm_context *context;
	struct gm_advise_options options;
	bool all;
};

static const struct argp_option option_table[] = {
        {"all", KEY_ALL, NULL, 0, "also what does not help, and why", 0},
        {"parts", KEY_PARTS, "N", 0, "a batch of 1/N, and accumulation over N parts (2)", 0},
        {"chunks", KEY_CHUNKS, "N", 0,
                "computes the loss in N chunks of tokens, one after another (8)", 0},
        {"world", KEY_WORLD, "N", 0, "ZeRO over N ranks (8)", 0},
        GM_DEVICE_OPTION(KEY_DEVICE),
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *number(const char *argument, uint64_t least, uint32_t *ret_number)
{
	uint64_t value;
	gm_try(gm_parse_number(argument, least, NUMBER_MAX, &value));
	*ret_number = (uint32_t)value;
	return NULL;
}

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct input *options = input;
	switch (key) {
	case KEY_ALL:
		options->all = true;
		return NULL;
	case KEY_PARTS:
		return gm_error_prefix(number(argument, 2, &options->options.parts), "--parts");
	case KEY_CHUNKS:
		return gm_error_prefix(number(argument, 2, &options->options.chunks), "--chunks");
	case KEY_WORLD:
		return gm_error_prefix(number(argument, 2, &options->options.world), "--world");
	case KEY_DEVICE:
		options->options.has_device = true;
		return gm_error_prefix(
		        gm_parse_number(argument, 0, INT16_MAX, &options->options.device),
		        "--device");
	default:
		return gm_target_option(options->context, key, argument);
	}
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct input input = {
	        .context = context,
	        .options = {.world = WORLD, .parts = PARTS, .chunks = CHUNKS},
	};
	struct gm_advise advise;
	gm_try(gm_arguments_parse(&gm_command_advise, argc, argv, option_table, handle, &input, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(gm_arguments_take_file(&arguments, context, 0));
	gm_try(gm_ask_advise(context, &input.options, &advise));
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments.json
	                                 ? gm_render_advise_json(&advise, out)
	                                 : gm_render_advise_text(&advise, input.all, &style, out);
	gm_advise_deinit(&advise);
	return error;
}

const struct gm_command gm_command_advise = {
        .name = "advise",
        .summary = "what would lower the peak, and by how much",
        .usage = "[FILE] [--all] [--parts=N] [--chunks=N] [--world=N] [--device=N] [--json]\n"
                 "Applies measures to the recorded blocks, one at a time: changes of the program "
                 "or of its settings that\n"
                 "save memory (a variable released earlier, another optimizer, a checkpoint, "
                 "ZeRO). It adds up the\n"
                 "allocated bytes again, and shows by how much each lowers the peak, what the new "
                 "peak is, and where it\n"
                 "is then. What depends on more than lifetimes is an estimate and has a range. "
                 "What does not lower the\n"
                 "peak is not advised; --all says why.\n"
                 "\n"
                 " Example: gpumem advise run.gpumem\n"
                 " Example: gpumem advise run.gpumem --all --parts 4",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
