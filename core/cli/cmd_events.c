#include "ask/collectives.h"
#include "ask/events.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/target.h"
#include "base/cleanup.h"
#include "render/answers.h"
#include "render/collectives.h"

struct options {
	struct gm_context *context;
	uint64_t from, to;
	bool stacks, collectives;
};

enum { KEY_FROM = 0x1101, KEY_TO, KEY_STACKS, KEY_COLLECTIVES };

extern const struct gm_command gm_command_events;

static const struct argp_option option_table[] = {
        {"from", KEY_FROM, "N", 0, "the first event shown (events count from 0)", 0},
        {"to", KEY_TO, "N", 0, "the last event shown", 0},
        {"stacks", KEY_STACKS, NULL, 0,
                "below each event its Python frames with their source lines, and its native frames",
                0},
        {"collectives", KEY_COLLECTIVES, NULL, 0,
                "the calls of NCCL instead: what moved between ranks, and when it was called", 0},
        GM_TARGET_OPTIONS,
        GM_TARGET_LOOP_OPTION,
        {0},
};

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	if (key == KEY_STACKS) {
		options->stacks = true;
		return NULL;
	}
	if (key == KEY_COLLECTIVES) {
		options->collectives = true;
		return NULL;
	}
	if (key != KEY_FROM && key != KEY_TO)
		return gm_target_option(options->context, key, argument);
	struct gm_error *error = gm_parse_number(
	        argument, 0, UINT32_MAX - 1, key == KEY_FROM ? &options->from : &options->to);
	return gm_error_prefix(error, key == KEY_FROM ? "--from" : "--to");
}

static struct gm_error *show_collectives(struct gm_context *context, bool json, FILE *out)
{
	const struct gm_style style = {context->columns, context->colors};
	struct gm_collectives collectives;
	gm_try(gm_ask_collectives(context, &collectives));
	struct gm_error *error = json ? gm_render_collectives_json(&collectives, out)
	                              : gm_render_collectives_text(&collectives, &style, out);
	gm_collectives_deinit(&collectives);
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {context, 0, UINT32_MAX - 1, false, false};
	bool target;
	struct gm_error *error = gm_arguments_parse(&gm_command_events, argc, argv, option_table,
	        handle, &options, 1, false, out, &arguments);
	if (error || arguments.help)
		return error;
	error = gm_target_take_file(&arguments, context, 0, &target);
	if (!error && options.collectives)
		return show_collectives(context, arguments.json, out);
	struct gm_events events;
	if (!error)
		error = gm_ask_events(
		        context, (uint32_t)options.from, (uint32_t)options.to, &events);
	if (error)
		return error;
	const struct gm_style style = {context->columns, context->colors};
	return arguments.json ? gm_render_events_json(events.model, events.from, events.to, out)
	                      : gm_render_events_text(events.model, events.from, events.to,
	                                options.stacks, &style, out);
}

const struct gm_command gm_command_events = {
        .name = "events",
        .summary = "the events of a recording, one per line",
        .usage = "[FILE | --pid PID | --core CORE] [--from=N] [--to=N] [--stacks | --collectives] "
                 "[--json]\n"
                 "Shows allocations, frees, segments and out-of-memory errors in their order, with "
                 "the step,\n"
                 "the phase and the line of the program. Events are numbered from 0.\n"
                 "--stacks shows the frames of each event below it; the JSON has them always.\n"
                 "--collectives shows the calls of NCCL: each with the event before it, bytes, "
                 "group, step, phase and line.\n"
                 "For a process or core: its own recording (`gpumem run`, `gpumem attach`), or "
                 "else PyTorch's trace,\n"
                 "if there is one.\n"
                 "\n"
                 "Example: gpumem events run.gpumem --from 10 --to 20",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
