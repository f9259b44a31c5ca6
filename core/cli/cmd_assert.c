/* `gpumem assert`: checks whether a recording is within limits. */
#include <stdlib.h>
#include <string.h>

#include "ask/assert.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "render/assert.h"

extern const struct gm_command gm_command_assert;

enum {
	KEY_PEAK = 0x1001,
	KEY_GROWTH,
	KEY_BASELINE,
	KEY_LEAKS,
	KEY_STEPS,
	KEY_OOM,
	KEY_GAPS,
	KEY_DEVICE
};

struct options {
	struct gm_assert_limits limits;
	const char *baseline;
};

static const struct argp_option option_table[] = {
        {"peak", KEY_PEAK, "LIMIT", 0, "the maximum of the allocated bytes, such as '<20GiB'", 0},
        {"leaks", KEY_LEAKS, "none|LIMIT", 0,
                "the bytes that accumulate in each iteration, summed over all lines", 0},
        {"steps-equal", KEY_STEPS, "LIMIT", OPTION_ARG_OPTIONAL,
                "how much steps may differ in peak and final bytes, from the second step on (0)",
                0},
        {"no-oom", KEY_OOM, NULL, 0, "no out-of-memory error, not even one that was caught", 0},
        {"baseline", KEY_BASELINE, "FILE", 0, "the recording that --growth compares with", 0},
        {"growth", KEY_GROWTH, "LIMIT", 0,
                "how much the peak may be above the baseline's: '5%', '100MiB'", 0},
        {"allow-gaps", KEY_GAPS, NULL, 0, "passes even if the recording is incomplete", 0},
        {"device", KEY_DEVICE, "N", 0, "checks only this device", 0},
        {0},
};

/* "<20GiB", "<=20GiB" and "20GiB", which are equivalent; for growth also "5%". */
static struct gm_error *parse_limit(
        const char *text, bool may_be_percent, struct gm_assert_limit *ret_limit)
{
	struct gm_assert_limit limit = {.set = true};
	const char *number = text;
	if (*number == '<') {
		number++;
		limit.strict = *number != '=';
		number += *number == '=';
	}
	while (*number == ' ')
		number++;
	size_t length = strlen(number);
	char *end;
	if (may_be_percent && length && number[length - 1] == '%') {
		double percent = strtod(number, &end);
		if (end != number + length - 1 || !(percent >= 0 && percent <= 100000))
			return gm_error_create(GM_USAGE,
			        "'%s' is not a limit: give one such as 5%% or 100MiB", text);
		limit.percent = true;
		limit.bytes = (uint64_t)(percent * 100 + 0.5);
		*ret_limit = limit;
		return NULL;
	}
	struct gm_error *error = gm_parse_bytes(number, &limit.bytes);
	if (error) {
		gm_error_destroy(error);
		return gm_error_create(GM_USAGE,
		        "'%s' is not a limit: give one such as '<20GiB' or 500MiB%s", text,
		        may_be_percent ? " or 5%" : "");
	}
	*ret_limit = limit;
	return NULL;
}

static struct gm_error *handle(void *input, int key, const char *argument)
{
	struct options *options = input;
	struct gm_assert_limit *of = options->limits.of;
	const struct gm_assert_limit none = {.set = true};
	switch (key) {
	case KEY_PEAK:
		return gm_error_prefix(parse_limit(argument, false, &of[GM_ASSERT_PEAK]), "--peak");
	case KEY_GROWTH:
		return gm_error_prefix(
		        parse_limit(argument, true, &of[GM_ASSERT_GROWTH]), "--growth");
	case KEY_LEAKS:
		if (strcmp(argument, "none") == 0) {
			of[GM_ASSERT_LEAKS] = none;
			return NULL;
		}
		return gm_error_prefix(
		        parse_limit(argument, false, &of[GM_ASSERT_LEAKS]), "--leaks");
	case KEY_STEPS:
		of[GM_ASSERT_STEPS] = none;
		return argument
		               ? gm_error_prefix(parse_limit(argument, false, &of[GM_ASSERT_STEPS]),
		                         "--steps-equal")
		               : NULL;
	case KEY_OOM:
		of[GM_ASSERT_OOM] = none;
		return NULL;
	case KEY_BASELINE:
		options->baseline = argument;
		return NULL;
	case KEY_GAPS:
		options->limits.gaps_allowed = true;
		return NULL;
	case KEY_DEVICE:
		return gm_parse_device(argument, &options->limits.device);
	default:
		return gm_error_create(GM_INTERNAL, "assert: option %d", key);
	}
}

static struct gm_error *check_options(const struct options *options)
{
	bool some = false;
	for (int i = 0; i < GM_ASSERT_KINDS; i++)
		some |= options->limits.of[i].set;
	if (options->limits.of[GM_ASSERT_GROWTH].set != (options->baseline != NULL))
		return gm_error_create(GM_USAGE,
		        "assert: --growth and --baseline go together: give both, or neither");
	if (!some)
		return gm_error_create(GM_USAGE, "assert: nothing to check: give --peak, --growth, "
		                                 "--leaks, --steps-equal or "
		                                 "--no-oom");
	return NULL;
}

/* Asks about each FILE, or about the session's own recording. The caller frees the answers. */
static struct gm_error *ask_all(struct gm_context *context, const struct gm_arguments *arguments,
        const struct options *options, struct gm_assert_answer *answers, size_t count)
{
	struct gm_assert_baseline baseline = {0};
	struct gm_error *error = NULL;
	if (options->baseline) {
		_cleanup_free_ char *own = context->log_path ? strdup(context->log_path) : NULL;
		if (context->log_path && !own)
			return &gm_error_no_memory;
		gm_try(gm_context_set_log(context, options->baseline));
		error = gm_assert_baseline(context, &baseline);
		struct gm_error *back = gm_context_set_log(context, own);
		if (error)
			gm_error_destroy(back);
		else
			error = back;
	}
	for (size_t i = 0; i < count && !error; i++) {
		if (arguments->positional_count)
			error = gm_context_set_log(context, arguments->positional[i]);
		if (!error)
			error = gm_ask_assert(context, &options->limits, &baseline, &answers[i]);
	}
	gm_assert_baseline_deinit(&baseline);
	return error;
}

static struct gm_error *run(
        struct gm_context *context, int argc, char **argv, FILE *out, FILE *err, int *ret_status)
{
	struct gm_arguments arguments;
	struct options options = {.limits.device = -1};
	gm_try(gm_arguments_parse(&gm_command_assert, argc, argv, option_table, handle, &options,
	        GM_ARGUMENTS_MAX, false, out, &arguments));
	if (arguments.help)
		return NULL;
	gm_try(check_options(&options));
	if (!arguments.positional_count && context->shell)
		return gm_error_create(GM_USAGE, "assert: no recording: name a FILE");
	size_t count = arguments.positional_count ? (size_t)arguments.positional_count : 1;
	const char *own = NULL, *const *names = &own;
	if (arguments.positional_count)
		names = arguments.positional;
	struct gm_assert_answer *answers = calloc(count, sizeof(*answers));
	if (!answers)
		return &gm_error_no_memory;
	struct gm_error *error = ask_all(context, &arguments, &options, answers, count);
	for (size_t i = 0; i < count && !error && !arguments.json; i++)
		error = gm_render_assert_text(names[i], &answers[i], out);
	if (!error && arguments.json)
		error = gm_render_assert_json(names, answers, count, out);
	for (size_t i = 0; i < count; i++) {
		if (!error && !gm_assert_all_hold(&answers[i]))
			*ret_status = 1;
		gm_assert_answer_deinit(&answers[i]);
	}
	free(answers);
	return error;
}

const struct gm_command gm_command_assert = {
        .name = "assert",
        .summary = "checks recordings against limits: peak, growth, leaks, equal steps",
        .usage = "[FILE...] [--peak=LIMIT] [--leaks=none|LIMIT] [--steps-equal[=LIMIT]] [--no-oom] "
                 "[--baseline=FILE --growth=LIMIT] [--allow-gaps] [--device=N] [--json]\n"
                 "Checks each recording against limits, for tests and CI jobs. A LIMIT is a size "
                 "(20GiB: at most;\n"
                 "'<20GiB': less). --growth also takes a percentage. The limits apply to allocated "
                 "bytes, which depend\n"
                 "only on the program; the reserved bytes are shown for comparison. If a limit "
                 "holds for the recorded\n"
                 "events but the recording is incomplete, the result is unknown.\n"
                 "Exit status: 0 all limits hold; 1 a limit fails or is unknown.\n"
                 "\n"
                 " Example: gpumem assert run.gpumem --peak '<20GiB' --leaks none --steps-equal\n"
                 " Example: gpumem assert run.gpumem --baseline main.gpumem --growth 5%",
        .effect = GM_EFFECT_NONE,
        .shell = true,
        .gdb = true,
        .run = run,
};
