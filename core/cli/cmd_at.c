#include <inttypes.h>

#include "ask/blocks.h"
#include "ask/events.h"
#include "base/cleanup.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/at.h"

extern const struct gm_command gm_command_at;

enum { OPTION_TOP = 0x1001, SHOWN = 10 };

static const struct argp_option options[] = {
        {"top", OPTION_TOP, "N", 0, "only the first N blocks (10)", 0},
        {0},
};

static struct gm_error *take_option(void *context, int key, const char *argument)
{
	struct gm_blocks_options *blocks = context;
	return gm_error_prefix(gm_parse_number(argument, 1, UINT32_MAX, &blocks->top), "--top");
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct gm_blocks_options asked = {.by = GM_BY_LINE,
	        .descend = true,
	        .has_event = true,
	        .of_event = true,
	        .top = SHOWN};
	gm_try(gm_arguments_parse(&gm_command_at, argc, argv, options, take_option, &asked, 1,
	        false, out, &arguments));
	if (arguments.help)
		return NULL;
	if (!arguments.positional_count)
		return gm_error_create(GM_USAGE,
		        "at: EVENT is missing: give the number of an event, as in `gpumem at 120`");
	const char *text = arguments.positional[0];
	gm_try(gm_error_prefix(
	        gm_parse_number(text + (text[0] == '#'), 0, UINT32_MAX - 1, &asked.event), "at"));
	struct gm_events events;
	gm_try(gm_ask_events(context, 0, UINT32_MAX, &events));
	uint64_t count = gm_log_event_count(gm_model_log(events.model));
	if (asked.event >= count)
		return gm_error_create(GM_USAGE,
		        "at %" PRIu64 ": the recording has %" PRIu64
		        " events so far, and they count from 0: give a smaller number",
		        asked.event, count);
	struct gm_blocks blocks;
	gm_try(gm_ask_blocks(context, &asked, &blocks));
	const struct gm_style style = {context->columns, context->colors};
	struct gm_error *error = arguments.json ? gm_render_at_json(&blocks, out)
	                                        : gm_render_at_text(&blocks, &style, out);
	gm_blocks_deinit(&blocks);
	return error;
}

const struct gm_command gm_command_at = {
        .name = "at",
        .summary = "a past state of the recording: bytes allocated and reserved, biggest blocks",
        .usage = "EVENT [--top N] [--json]\n"
                 "Shows the event, the bytes that were allocated and reserved on its device after "
                 "it, and the biggest\n"
                 "blocks of that moment. It works while the program is being recorded; the program "
                 "stays\n"
                 "stopped. `gpumem blocks --at EVENT`, `segments --at EVENT` and `where EVENT` "
                 "show more of that moment.\n"
                 "\n"
                 "Example: gpumem at 120",
        .effect = GM_EFFECT_NONE,
        .gdb = true,
        .run = run,
};
